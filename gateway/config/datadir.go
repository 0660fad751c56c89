package config

import (
	"os"
	"path/filepath"
	"regexp"
)

// dataDirLine finds a top-level data_dir in a file that is not valid YAML.
var dataDirLine = regexp.MustCompile(`(?m)^data_dir:[ \t]*["']?([^"'#\r\n]*[^"'#\s])`)

// DataDir returns the data directory that the configuration at path names, for
// those who only look for its gateway: whatever else is wrong with the file,
// and credentials that are not there in this shell, do not matter to them. An
// error says that the file cannot be read or that data_dir itself is wrong.
func DataDir(path string) (string, error) {
	data, err := readConfig(path)
	if err != nil {
		return "", Problems{{File: path, Message: "cannot be read: " + cause(err).Error(), Hint: "name another file with --config, or a gateway with --connect"}}
	}
	m := newMeta(path, filepath.Dir(path))
	n, _ := parse(m.file, data)
	if n == nil {
		// A gateway that runs is still where it was.
		dir := "./data"
		if found := dataDirLine.FindSubmatch(data); found != nil {
			dir = string(found[1])
		}
		return resolve(m.dir, dir), nil
	}
	d := &decoder{meta: m, src: Source{Path: path, Env: os.LookupEnv}, cfg: &Config{Path: path, meta: m}, meant: map[string]bool{}}
	d.decode(n)
	for _, p := range d.problems {
		if p.Key == "data_dir" {
			return "", Problems{p}
		}
	}
	return d.cfg.DataDir, nil
}
