package wire

import (
	"bytes"
	"unicode/utf8"
)

// keySet finds keys that some reader of JSON would take for the same. A reader
// that takes the first of two, one that takes the last, and one that ignores
// case would else disagree about what was asked for.
type keySet struct {
	n    int // of all keys
	few  [32][]byte
	many map[string]struct{} // all of them, once few is full
}

// maxKeys bounds what a body can make us remember. No vendor's request has a
// tenth as many keys.
const maxKeys = 1000

// add reports whether name, already unescaped, is new. It keeps name unless
// that will be overwritten.
func (k *keySet) add(name []byte, overwritten bool) bool {
	if plain := canonical(name); overwritten && len(name) > 0 && &plain[0] == &name[0] {
		name = bytes.Clone(name)
	} else {
		name = plain
	}
	k.n++
	if k.many == nil {
		for _, old := range k.few[:k.n-1] {
			if bytes.Equal(old, name) {
				return false
			}
		}
		if k.n <= len(k.few) {
			k.few[k.n-1] = name
			return true
		}
		k.many = make(map[string]struct{}, 2*len(k.few))
		for _, old := range k.few {
			k.many[string(old)] = struct{}{}
		}
	}
	if _, ok := k.many[string(name)]; ok {
		return false
	}
	k.many[string(name)] = struct{}{}
	return true
}

// canonical returns name with the case folded, as far as it can make a name
// equal to an ASCII one, and with what is no UTF-8 replaced as readers do. It
// returns name itself where nothing changes.
func canonical(name []byte) []byte {
	i := 0
	for i < len(name) && name[i] < utf8.RuneSelf && lower(name[i]) == name[i] {
		i++
	}
	if i == len(name) {
		return name
	}
	out := append(make([]byte, 0, len(name)+8), name[:i]...)
	for i < len(name) {
		r, n := utf8.DecodeRune(name[i:])
		switch i += n; {
		case r < utf8.RuneSelf:
			out = append(out, lower(byte(r)))
		case r == 0x017f: // long s
			out = append(out, 's')
		case r == 0x212a: // Kelvin sign
			out = append(out, 'k')
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
