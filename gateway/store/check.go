package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
)

// The server cuts a file off where it first cannot read it, and goes on with
// what is left. So the files are read before a server may touch them. Their
// records are the server's (filestore.go, writeMsgRecordLocked):
//
//	length(4) sequence(8) time(8) subject_length(2) subject [header_length(4) header] value hash(8)
const (
	recordHead  = 22
	recordHash  = 8
	recordMax   = 32 << 20
	withHeader  = 1 << 31 // in the length
	notSequence = 3 << 62 // in the sequence: erased, tombstone
	// searched is how far behind an unreadable record a readable one is
	// looked for.
	searched = 4 << 20
)

// lasts are the last sequences of streams.
type lasts map[string]uint64

// checkFiles reads the files of every stream below dir. It changes nothing. The
// end of a stream's last file may be torn: what a crash interrupted was never
// acknowledged. Anything else that cannot be read is a *DamagedError, and so is
// a stream that ends before what known says.
func checkFiles(dir string, known lasts) (lasts, error) {
	found := lasts{}
	names, err := streamNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		last, detail, err := checkStream(streamPath(dir, name), name)
		if err != nil {
			return nil, err
		}
		if detail == "" && last < known[name] {
			detail = fmt.Sprintf("%s ends at value %d and once had %d", streamPath(dir, name), last, known[name])
		}
		if detail != "" {
			return nil, &DamagedError{Dir: dir, Detail: detail}
		}
		found[name] = last
	}
	for name := range known {
		if _, is := found[name]; !is {
			return nil, &DamagedError{Dir: dir, Detail: streamPath(dir, name) + " is missing"}
		}
	}
	return found, nil
}

func streamPath(dir, name string) string {
	return filepath.Join(dir, server.JetStreamStoreDir, "$G", "streams", name)
}

// streamNames returns the names of the streams that dir holds.
func streamNames(dir string) ([]string, error) {
	dirs, err := os.ReadDir(streamPath(dir, ""))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range dirs {
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, d.Name())
		}
	}
	return names, nil
}

// checkStream returns a stream's last sequence, and what is damaged of it.
func checkStream(path, name string) (last uint64, damage string, err error) {
	files, err := os.ReadDir(filepath.Join(path, "msgs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, "", err
	}
	var blocks []int
	for _, f := range files {
		if n, is := strings.CutSuffix(f.Name(), ".blk"); is {
			if i, err := strconv.Atoi(n); err == nil {
				blocks = append(blocks, i)
			}
		}
	}
	slices.SortFunc(blocks, cmp.Compare[int])
	for i, b := range blocks {
		file := filepath.Join(path, "msgs", strconv.Itoa(b)+".blk")
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, "", err
		}
		r := newRecords(name, b)
		end := r.read(data, &last)
		if end == len(data) {
			continue
		}
		if i < len(blocks)-1 || r.follows(data[end:]) {
			return 0, fmt.Sprintf("%s cannot be read at byte %d", file, end), nil
		}
	}
	return last, "", nil
}

// records reads the records of one file; their hash depends on which it is.
type records struct{ hash *highwayhash.Digest64 }

func newRecords(stream string, block int) records {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, block))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil { // a key of 32 bytes is right
		panic(err)
	}
	return records{h}
}

// read returns where data stops being readable, and raises last to the highest
// sequence in it.
func (r records) read(data []byte, last *uint64) int {
	at := 0
	for at < len(data) {
		n, sequence := r.one(data[at:])
		if n == 0 {
			break
		}
		*last = max(*last, sequence)
		at += n
	}
	return at
}

// one returns the length and the sequence of the record that data begins with,
// or 0 if none does.
func (r records) one(data []byte) (length int, sequence uint64) {
	if len(data) < recordHead+recordHash {
		return 0, 0
	}
	rl, subject := binary.LittleEndian.Uint32(data), int(binary.LittleEndian.Uint16(data[20:]))
	head := rl&withHeader != 0
	n := int(rl &^ withHeader)
	skip := 0
	if head {
		skip = 4
	}
	if n > recordMax || n > len(data) || recordHead+subject+skip+recordHash > n {
		return 0, 0
	}
	body := data[recordHead : n-recordHash]
	r.hash.Reset()
	_, _ = r.hash.Write(data[4:20])
	_, _ = r.hash.Write(body[:subject])
	_, _ = r.hash.Write(body[subject+skip:])
	if !bytes.Equal(r.hash.Sum(nil), data[n-recordHash:n]) {
		return 0, 0
	}
	return n, binary.LittleEndian.Uint64(data[4:]) &^ notSequence
}

// follows reports whether a readable record follows somewhere in data.
func (r records) follows(data []byte) bool {
	for at := 1; at < min(len(data), searched); at++ {
		if n, _ := r.one(data[at:]); n > 0 {
			return true
		}
	}
	return false
}

// lastsFile holds the last sequences as of the last time the store was closed
// or opened: what a file lost at its end shows in nothing else.
const lastsFile = "last.json"

func readLasts(dir string) (lasts, error) {
	data, err := os.ReadFile(filepath.Join(dir, lastsFile))
	if errors.Is(err, os.ErrNotExist) {
		return lasts{}, nil
	}
	if err != nil {
		return nil, err
	}
	var l lasts
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, &DamagedError{Dir: dir, Detail: filepath.Join(dir, lastsFile) + " cannot be read"}
	}
	return l, nil
}

// writeLasts replaces the file, whole or not at all.
func writeLasts(dir string, l lasts) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, lastsFile)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
