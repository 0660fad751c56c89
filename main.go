// Command failback is an LLM failover gateway with its on-call console built
// in. This package reads flags and puts the pieces together; everything else
// is in the rooms it names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"failback/gateway"
	"failback/gateway/config"
	"failback/ui"
	"failback/ui/text"
)

// version is set by -ldflags "-X main.version=…"; else the module's is used.
var version = ""

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // what was asked for failed
	exitUsage  = 2 // wrong usage or configuration
)

func main() {
	// A dead pipe of the log or of a terminal must not end the gateway: writes
	// then fail with EPIPE, which is counted.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is one subcommand.
type command struct {
	name  string
	args  string // after the flags, for the usage line
	about string
	run   func(*invocation) error
	flags func(*invocation)
}

var commands []command

func init() {
	// Set here, since help reads the list that it is part of.
	commands = []command{
		{name: "", about: "start the gateway as a process of its own, and the console on its socket", run: runDefault, flags: consoleFlags},
		{name: "demo", about: "the same on built-in fake upstreams with traffic; needs no configuration", run: runDemo, flags: demoFlags},
		{name: "serve", about: "the gateway without a terminal", run: runServe, flags: serveFlags},
		{name: "console", about: "the console of a gateway that runs", run: runConsole, flags: consoleFlags},
		{name: "status", about: "what the gateway is doing, once", run: runStatus, flags: clientFlags},
		{name: "decisions", about: "the latest routing decisions", run: runDecisions, flags: decisionsFlags},
		{name: "query", args: "[NAME]", about: "ask the decision log: a canned query, or LogQL; without either, lists the canned ones", run: runQuery, flags: runQueryFlags},
		{name: "step", args: "UPSTREAM SHARE|plan|manual", about: "give an upstream 0, 5, 25, 75 or 100 percent of its own traffic; plan approves them once, but for the way out of degraded", run: runStep, flags: stepFlags},
		{name: "state", args: "UPSTREAM degraded|recovering", about: "take all of its own traffic from an upstream, or begin its way back", run: runState, flags: stateFlags},
		{name: "breaker", args: "UPSTREAM:CAPABILITY open|close|auto", about: "force a breaker for a time, or let it decide again", run: runBreaker, flags: breakerFlags},
		{name: "passthrough", args: "on|off", about: "break glass: a fixed order that ignores share and breakers", run: runPassthrough, flags: passthroughFlags},
		{name: "reload", about: "read the configuration again, all of it or nothing", run: runReload, flags: clientFlags},
		{name: "incident", args: "list|show ID|report ID|open TITLE|note ID TEXT|tick ID RUNBOOK STEP|answer ID QUESTION TEXT|close ID|reopen ID", about: "the record of an outage: read it, write its report, add to it, close it", run: runIncident, flags: incidentFlags},
		{name: "rules", about: "alert rules for Prometheus, with thresholds given or measured, or a Grafana dashboard", run: runRules, flags: runRulesFlags},
		{name: "check", about: "validate the configuration and say what it means", run: runCheck, flags: checkFlags},
		{name: "token", about: "make a token or client key, and the hash to configure", run: runToken, flags: jsonFlag},
		{name: "version", about: "print the version", run: runVersion, flags: jsonFlag},
	}
}

// invocation is one call of a command.
type invocation struct {
	ctx    context.Context
	out    io.Writer
	err    io.Writer
	flags  *pflag.FlagSet
	args   []string
	config string
	json   bool

	connect, tokenFile, caFile string
	readOnly, ascii            bool
	limit                      int
	task, status, provider     string
	reason, lasts, revision    string
	seen                       string
	override, undo, show       bool
	order                      []string
	script, instance, listen   string
	cooldown, dir              string
	headless, endsWithStdin    bool
	runbooks                   string
	query                      queryFlags
	rules                      rulesFlags
}

// usageError is a call that makes no sense as it is.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// run runs the command line args and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, rest := find(args)
	if c == nil {
		fmt.Fprintf(stderr, "failback: no command %q\n\n%s", rest[0], help())
		return exitUsage
	}
	in := &invocation{ctx: ctx, out: stdout, err: stderr, flags: pflag.NewFlagSet("failback "+c.name, pflag.ContinueOnError)}
	in.flags.SetOutput(io.Discard)
	in.flags.StringVar(&in.config, "config", "failback.yaml", "configuration file")
	c.flags(in)
	err := in.flags.Parse(rest)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, usageOf(c, in.flags))
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "failback %s: %v\n\n%s", c.name, err, usageOf(c, in.flags))
		return exitUsage
	}
	in.args = in.flags.Args()
	return report(stderr, c.run(in))
}

// find picks the command and leaves its arguments.
func find(args []string) (*command, []string) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return &commands[0], args
	}
	for i := range commands[1:] {
		if c := &commands[i+1]; c.name == args[0] {
			return c, args[1:]
		}
	}
	return nil, args
}

// report prints what went wrong and returns the exit code for it.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errReported) {
		return exitFailed
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			printLines(stderr, p.Error())
		}
		return exitUsage
	}
	printLines(stderr, "failback: "+err.Error())
	if _, ok := errors.AsType[*usageError](err); ok || errors.Is(err, ui.ErrNoTerminal) {
		return exitUsage
	}
	return exitFailed
}

// printLines prints text that may have come from outside, so that it drives no
// terminal.
func printLines(w io.Writer, s string) {
	for _, l := range text.VisibleLines(s) {
		fmt.Fprintln(w, l)
	}
}

// errReported is a failure whose text has been printed already.
var errReported = errors.New("reported")

func help() string {
	var b strings.Builder
	b.WriteString("usage: failback [COMMAND] [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.about)
	}
	b.WriteString("\nfailback COMMAND --help lists a command's flags.\n")
	return b.String()
}

func usageOf(c *command, flags *pflag.FlagSet) string {
	line := strings.Join(strings.Fields("usage: failback "+c.name+" [flags] "+c.args), " ")
	usage := line + "\n" + c.about + "\n\n" + flags.FlagUsages()
	if c.name == "" {
		usage += "\n" + help()
	}
	return usage
}

// programVersion is what this program calls itself.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func jsonFlag(in *invocation) { in.flags.BoolVar(&in.json, "json", false, "print JSON") }

// clientFlags are those of every command that speaks to a gateway.
func clientFlags(in *invocation) {
	jsonFlag(in)
	connectFlags(in)
}

func connectFlags(in *invocation) {
	in.flags.StringVar(&in.connect, "connect", "", "gateway: unix:PATH or http(s)://HOST:PORT (default: the socket in data_dir)")
	in.flags.StringVar(&in.tokenFile, "token-file", "", "file with the token for --connect over TCP")
	in.flags.StringVar(&in.caFile, "ca-file", "", "PEM file with the CA of the gateway's certificate")
}

func consoleFlags(in *invocation) {
	connectFlags(in)
	in.flags.BoolVar(&in.readOnly, "read-only", false, "no command can be given from this console")
	in.flags.BoolVar(&in.ascii, "ascii", false, "draw with ASCII only")
	in.flags.StringVar(&in.runbooks, "runbooks", "", "directory of runbooks (*.md) that extend the built-in ones, or replace those of the same id")
}

func demoFlags(in *invocation) {
	in.flags.StringVar(&in.script, "script", "outage", "what the fake upstreams do: outage (after 20 s the primary fails, and later is well again) or quiet (nothing fails by itself)")
	in.flags.BoolVar(&in.readOnly, "read-only", false, "no command can be given from this console")
	in.flags.BoolVar(&in.ascii, "ascii", false, "draw with ASCII only")
	in.flags.StringVar(&in.runbooks, "runbooks", "", "directory of runbooks (*.md) that extend the built-in ones, or replace those of the same id")
	in.flags.BoolVar(&in.headless, "headless", false, "gateway, fake upstreams and traffic without a console")
	in.flags.BoolVar(&in.endsWithStdin, "ends-with-stdin", false, "")
	_ = in.flags.MarkHidden("ends-with-stdin") // how a console holds its demo's gateway
	in.flags.StringVar(&in.dir, "dir", "", "directory for the demo's data and its socket, "+gateway.SocketName+"; made if missing, and kept (default: a new temporary one, removed at the end)")
}

func serveFlags(in *invocation) {
	in.flags.StringVar(&in.listen, "listen", "", "overrides listen")
	in.flags.StringVar(&in.cooldown, "breaker-cooldown", "", "overrides breaker.cooldown")
	in.flags.StringVar(&in.instance, "instance", "", "name of this gateway among others (default: the host's name)")
}

func decisionsFlags(in *invocation) {
	clientFlags(in)
	in.flags.IntVar(&in.limit, "limit", 20, "how many at most")
	in.flags.StringVar(&in.task, "task", "", "only of this task")
	in.flags.StringVar(&in.status, "status", "", "only with this workflow status")
	in.flags.StringVar(&in.provider, "provider", "", "only those that this upstream answered, was primary of, or was asked for")
}

func commandFlags(in *invocation) {
	clientFlags(in)
	in.flags.StringVar(&in.reason, "reason", "", "why, for the audit")
	in.flags.StringVar(&in.reason, "why", "", "the same as --reason")
}

// moveFlags are those of the commands that move traffic back by steps.
func moveFlags(in *invocation) {
	commandFlags(in)
	in.flags.StringVar(&in.revision, "revision", "", "the revision this is based on (default: the one in force now)")
}

func stateFlags(in *invocation) {
	moveFlags(in)
	in.flags.BoolVar(&in.override, "override", false, "recover although probes have not passed; needs --reason")
}

func stepFlags(in *invocation) {
	moveFlags(in)
	in.flags.BoolVar(&in.override, "override", false, "step although the gate objects, or over a step; needs --reason")
	in.flags.BoolVar(&in.undo, "undo", false, "put back the share before your own last lowering; SHARE is left out")
}

func breakerFlags(in *invocation) {
	commandFlags(in)
	in.flags.StringVar(&in.lasts, "for", "1h", "how long it is forced")
}

func passthroughFlags(in *invocation) {
	commandFlags(in)
	in.flags.StringSliceVar(&in.order, "order", nil, "upstreams in the order in which they are asked")
	in.flags.StringVar(&in.lasts, "for", "30m", "how long it lasts")
}

func checkFlags(in *invocation) {
	jsonFlag(in)
	in.flags.BoolVar(&in.show, "show", false, "print the whole effective configuration")
}
