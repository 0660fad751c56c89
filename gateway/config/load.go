package config

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
)

// Source is what a configuration is made from.
type Source struct {
	// Path is the file. Relative paths inside it are read from its directory;
	// without Path, from the working directory.
	Path string
	// Data is the content; nil reads Path.
	Data []byte
	// Env looks up environment variables: those that set keys, and those that
	// credentials name. nil is os.LookupEnv.
	Env func(string) (string, bool)
	// Flags are values from the command line, by dotted key. Relative paths in
	// them, and in the environment, are read from the working directory.
	Flags map[string]string
}

// defaultName names a configuration without a path in errors.
const defaultName = "configuration"

// Load reads, defaults and validates a configuration. Start, check and reload
// all use it, so they cannot differ in their verdict. The error is Problems,
// with everything that is wrong; then there is no configuration.
//
// It reads every file and credential that the configuration names and runs the
// commands of exec: credentials; ctx bounds those.
func Load(ctx context.Context, src Source) (*Config, error) {
	return loadWith(src, func(d *decoder) {
		d.readSecrets(ctx)
		d.readCertificates()
	})
}

// LoadText is Load without the credentials and certificates that the
// configuration names, for those who only want to know what it says: none of
// them needs to be there, and no command is run.
func LoadText(src Source) (*Config, error) { return loadWith(src, func(*decoder) {}) }

func loadWith(src Source, read func(*decoder)) (*Config, error) {
	if src.Env == nil {
		src.Env = os.LookupEnv
	}
	m := newMeta(src.Path, filepath.Dir(src.Path))
	if src.Path == "" {
		m.file, m.dir = defaultName, ""
	}
	data := src.Data
	if data == nil {
		var err error
		if data, err = readConfig(src.Path); err != nil {
			return nil, Problems{{File: m.file, Message: "cannot be read: " + cause(err).Error(), Hint: "name another file with --config"}}
		}
	}
	n, problems := parse(m.file, data)
	if n == nil {
		problems.sort()
		return nil, problems
	}
	d := &decoder{meta: m, src: src, cfg: &Config{Path: src.Path, meta: m}, problems: problems, meant: map[string]bool{}}
	d.decode(n)
	d.validate()
	read(d)
	if len(d.problems) > 0 {
		d.problems.sort()
		return nil, d.problems
	}
	return d.cfg, nil
}

func newMeta(file, dir string) *meta {
	return &meta{
		file: file, dir: dir,
		at:      map[string]position{},
		origins: map[string]string{},
		bad:     map[string]bool{},
		written: map[string]string{},
		files:   map[string]string{},
		secrets: map[string]string{},
	}
}

// readConfig reads no more than it takes to know that a file is too large.
func readConfig(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("no file is named")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if b == nil {
		b = []byte{}
	}
	return b, err
}

func (d *decoder) lookup(name string) (string, bool) {
	if d.src.Env == nil {
		return "", false
	}
	return d.src.Env(name)
}

// decode fills the configuration. Upstreams come last: they take what they do
// not set themselves from the top-level sections, as flags and environment
// leave them.
func (d *decoder) decode(n *node) {
	s, v := root(), reflect.ValueOf(d.cfg).Elem()
	d.defaults(s, v)
	d.resolveDefaults()
	if n.shape != shapeMap {
		if n.shape != shapeRefused {
			d.problems = append(d.problems, Problem{
				File: d.file, Line: n.at.line, Column: n.at.column,
				Message: "a map of keys is wanted, found " + n.shape.String(), Hint: "begin with listen: 127.0.0.1:8080",
			})
		}
		return
	}
	d.section(s, n, v, "", nil, func(f *field) bool { return f.key == "upstreams" })
	d.fromOutside()
	upstreams := &node{shape: shapeMap, at: n.at}
	for _, e := range n.entries {
		if e.key == "upstreams" {
			upstreams.entries = append(upstreams.entries, e)
		}
	}
	d.section(s, upstreams, v, "", nil, nil)
	d.required(s, v, "")
	d.derive()
}

// resolveDefaults does for default paths what is done for those of the file.
func (d *decoder) resolveDefaults() {
	f, _ := root().field("data_dir")
	d.resolve(f, reflect.ValueOf(&d.cfg.DataDir).Elem(), "data_dir", d.dir)
}

// readSecrets reads every credential, several at a time.
func (d *decoder) readSecrets(ctx context.Context) {
	type read struct {
		s         *Secret
		path      string
		complaint *complaint
	}
	var reads []*read
	for i := range d.cfg.Upstreams {
		u := &d.cfg.Upstreams[i]
		for j := range u.Keys {
			if path := u.keyPath(d.meta, j); !d.bad[path] {
				reads = append(reads, &read{s: &u.Keys[j], path: path})
			}
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, r := range reads {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r.s.value, r.complaint = r.s.read(ctx)
		})
	}
	wg.Wait()
	for _, r := range reads {
		if r.complaint != nil {
			d.add(r.path, r.complaint.message, r.complaint.hint)
			continue
		}
		d.secrets[r.path] = digest([]byte(r.s.value))
		if r.s.source == fromFile {
			d.files[r.s.path] = digest([]byte(r.s.value))
		}
	}
}

// keyPath is the path of the upstream's j-th credential.
func (u *Upstream) keyPath(m *meta, j int) string {
	path := child("upstreams", u.Name)
	if m.given(path + ".api_key") {
		return path + ".api_key"
	}
	return item(path+".api_keys", j)
}

// readCertificates reads the certificates that listeners need.
func (d *decoder) readCertificates() {
	for path, t := range map[string]*TLS{"tls": d.cfg.TLS, "operator.tls": d.cfg.Operator.TLS} {
		if t == nil || d.bad[path] || t.Cert == "" || t.Key == "" {
			continue
		}
		cert, ok := d.readFile(path+".cert", t.Cert)
		key, ok2 := d.readFile(path+".key", t.Key)
		if !ok || !ok2 {
			continue
		}
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			d.add(path+".cert", "certificate and key do not make a pair", err.Error())
		}
	}
}

// readFile reads a file that the key at path names.
func (d *decoder) readFile(path, name string) ([]byte, bool) {
	if d.bad[path] {
		return nil, false
	}
	b, err := readConfig(name)
	if err == nil && len(b) > maxFileBytes {
		err = errors.New("larger than 1 MiB")
	}
	if err != nil {
		d.add(path, "file "+fileName(name)+" cannot be read: "+cause(err).Error(), "")
		return nil, false
	}
	d.files[name] = digest(b)
	return b, true
}

// Files returns the files besides Path whose content matters: credentials and
// certificates, sorted. They may change without the configuration changing.
func (c *Config) Files() []string { return slices.Sorted(maps.Keys(c.meta.files)) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
