//go:build unix

package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// need skips the test without a tool, or fails it where all tools must be.
func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("missing tool: %s", tool)
		}
		t.Skipf("requires %s", tool)
	}
}

// place is a directory with a path short enough for sockets.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fb-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// panicky is the program with keys that make the console panic.
var panicky = sync.OnceValues(func() (string, error) {
	path := program + "-panicky"
	if out, err := exec.Command("go", "build", "-tags", "failback_testkeys", "-o", path, "..").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program with test keys: %w\n%s", err, out)
	}
	return path, nil
})

// alive reports whether a process runs. One that ended and was not waited for
// does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // there is no such file here
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

const prompt = "prompt-here"

// terminal is a real one: a window of a tmux server of its own, with a shell.
type terminal struct {
	t      *testing.T
	socket string // the server's name
	env    []string
	home   string // where the shell is, and what its commands write
	modes  string // the terminal's modes when the shell has it
	n      int    // commands whose output was awaited

	patience time.Duration // how long the screen is awaited

	consoles []int // pids of those it ran
}

// newTerminal opens a terminal of 80x24. env is for the shell and all it runs.
func newTerminal(t *testing.T, env ...string) *terminal {
	t.Helper()
	need(t, "tmux", "bash", "stty")
	tm := &terminal{t: t, socket: "failback-" + rand.Text()[:8], home: place(t), patience: 20 * time.Second}
	tm.env = append(os.Environ(), "TMUX_TMPDIR="+tm.home, "TMUX=")
	t.Cleanup(func() {
		_, _ = tm.try("kill-server")
		for _, pid := range tm.consoles { // each ends with its terminal, and may still write its log
			until(t, "the console has ended", func() bool { return !alive(pid) })
		}
	})
	args := []string{"-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", "80", "-y", "24", "-c", tm.home, "env"}
	args = append(args, "LANG=C.UTF-8", "PS1="+prompt+" ", "HISTFILE=", "HOME="+tm.home, "XDG_CACHE_HOME="+tm.home)
	tm.run(append(append(args, env...), "bash", "--norc", "--noprofile")...)
	tm.back()
	tm.modes = tm.output("stty -g")
	return tm
}

func (tm *terminal) try(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-L", tm.socket}, args...)...)
	cmd.Env = tm.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (tm *terminal) run(args ...string) string {
	tm.t.Helper()
	out, err := tm.try(args...)
	if err != nil {
		tm.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return out
}

// press presses keys by tmux's names: "y", "Enter", "C-z".
func (tm *terminal) press(keys ...string) {
	tm.t.Helper()
	tm.run(append([]string{"send-keys", "-t", "s"}, keys...)...)
}

// enter types a line of the shell.
func (tm *terminal) enter(line string) {
	tm.t.Helper()
	tm.run("send-keys", "-t", "s", "-l", "--", line)
	tm.press("Enter")
}

func (tm *terminal) resize(w, h int) {
	tm.t.Helper()
	tm.run("resize-window", "-t", "s", "-x", fmt.Sprint(w), "-y", fmt.Sprint(h))
}

func (tm *terminal) screen() string {
	tm.t.Helper()
	return tm.run("capture-pane", "-p", "-t", "s")
}

// flag is a word that tmux has for the state of the terminal.
func (tm *terminal) flag(name string) string {
	tm.t.Helper()
	return strings.TrimSpace(tm.run("display-message", "-p", "-t", "s", "#{"+name+"}"))
}

// await waits until the screen is as ok wants it.
func (tm *terminal) await(what string, ok func(screen string) bool) string {
	tm.t.Helper()
	deadline := time.After(tm.patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		screen := tm.screen()
		if ok(screen) {
			return screen
		}
		select {
		case <-deadline:
			tm.t.Fatalf("the screen never showed %s:\n%s", what, screen)
		case <-tick.C:
		}
	}
}

// shows waits until the screen has all of the words.
func (tm *terminal) shows(words ...string) string {
	tm.t.Helper()
	return tm.await(fmt.Sprintf("%q", words), func(screen string) bool {
		for _, w := range words {
			if !strings.Contains(screen, w) {
				return false
			}
		}
		return true
	})
}

// hides waits until the screen has the word no more.
func (tm *terminal) hides(word string) {
	tm.t.Helper()
	tm.await("no "+word, func(screen string) bool { return !strings.Contains(screen, word) })
}

// leads presses a key that leads to what alone has the heading, and waits for it.
// Words that the former screen has too, such as those of the help line, would say
// nothing of the key.
func (tm *terminal) leads(key, heading string) string {
	tm.t.Helper()
	if screen := tm.screen(); strings.Contains(screen, heading) {
		tm.t.Fatalf("%q is on the screen before %s:\n%s", heading, key, screen)
	}
	tm.press(key)
	return tm.shows(heading)
}

// pressUntil presses a key until it was heard: dialogs are deaf at first, and
// a y must not come close to other keys.
func (tm *terminal) pressUntil(key, what string, heard func() bool) {
	tm.t.Helper()
	tm.pressesUntil(func() []string { return []string{key} }, what, heard)
}

// pressesUntil is pressUntil with keys that depend on what is to be seen.
func (tm *terminal) pressesUntil(keys func() []string, what string, heard func() bool) {
	tm.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for !heard() {
		pressed := keys()
		tm.press(pressed...)
		select {
		case <-deadline:
			tm.t.Fatalf("%s did not do it: %s\n%s", pressed, what, tm.screen())
		case <-tick.C:
		}
	}
}

// back waits until the shell has the terminal and asks for a command.
func (tm *terminal) back() {
	tm.t.Helper()
	tm.await("the prompt", func(screen string) bool {
		lines := strings.Split(strings.TrimSpace(screen), "\n")
		return strings.TrimSpace(lines[len(lines)-1]) == prompt && tm.flag("alternate_on") == "0"
	})
}

// output runs a command in the shell and returns what it wrote.
func (tm *terminal) output(line string) string {
	tm.t.Helper()
	tm.n++
	path := filepath.Join(tm.home, fmt.Sprintf("out-%d", tm.n))
	tm.enter(line + " >" + path + "; echo end >>" + path)
	var text string
	until(tm.t, line+" has ended", func() bool {
		b, _ := os.ReadFile(path)
		var ended bool
		text, ended = strings.CutSuffix(string(b), "end\n")
		return ended
	})
	tm.back()
	return strings.TrimSpace(text)
}

// console runs a console in the foreground and returns its pid.
func (tm *terminal) console(argv ...string) int {
	tm.t.Helper()
	path := filepath.Join(tm.home, "pid")
	_ = os.Remove(path)
	tm.enter(fmt.Sprintf(`sh -c 'echo $$ >%s; exec "$@"' - %s`, path, strings.Join(argv, " ")))
	var pid int
	until(tm.t, "the console was started", func() bool {
		b, _ := os.ReadFile(path)
		_, err := fmt.Sscanf(string(b), "%d\n", &pid)
		return err == nil
	})
	tm.consoles = append(tm.consoles, pid)
	return pid
}

// restored waits for the shell and checks that the terminal is as it was
// before, and usable. code is the exit code to expect.
func (tm *terminal) restored(code int) {
	tm.t.Helper()
	tm.back()
	if got := tm.output("echo $?"); got != fmt.Sprint(code) {
		tm.t.Errorf("exit code %s, want %d\n%s", got, code, tm.screen())
	}
	for name, want := range map[string]string{"cursor_flag": "1", "mouse_any_flag": "0", "keypad_cursor_flag": "0", "keypad_flag": "0", "insert_flag": "0", "wrap_flag": "1"} {
		if got := tm.flag(name); got != want {
			tm.t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := tm.output("stty -g"); got != tm.modes {
		tm.t.Errorf("the terminal's modes are\n%s, they were\n%s", got, tm.modes)
	}
	if strings.Contains(tm.screen(), "goroutine ") {
		tm.t.Errorf("a stack trace is on the terminal:\n%s", tm.screen())
	}
	tm.enter("echo usable-$((40+2))")
	tm.shows("usable-42")
}
