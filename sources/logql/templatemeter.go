package logql

import (
	"errors"
	"reflect"
	"text/template"
)

// errEnded leaves a template of a query that is over; nobody sees it.
var errEnded = errors.New("the query is over")

// perCall is about what a call costs beside the bytes that go through it.
const perCall = 64

// metered returns the functions of these names so that what goes in and comes
// out is counted on m. A call in a query that is over does not come back.
func metered(m *meter, names []string, own template.FuncMap) template.FuncMap {
	counted := template.FuncMap{}
	for _, name := range names {
		f, ok := own[name]
		if !ok {
			if f, ok = templateFuncs[name]; !ok {
				continue // and, or, len and their like make nothing
			}
		}
		v := reflect.ValueOf(f)
		call := v.Call
		if v.Type().IsVariadic() {
			call = v.CallSlice
		}
		counted[name] = reflect.MakeFunc(v.Type(), func(in []reflect.Value) []reflect.Value {
			size := perCall
			for _, a := range in {
				size += textIn(a)
			}
			if !m.make(size) {
				panic(errEnded) // text/template makes an error of it
			}
			out := call(in)
			if !m.make(textIn(out[0])) {
				panic(errEnded)
			}
			return out
		}).Interface()
	}
	return counted
}

// textIn is how many bytes of text a value holds.
func textIn(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Interface:
		if !v.IsNil() {
			return textIn(v.Elem())
		}
	case reflect.Slice:
		n := 0
		for i := range v.Len() {
			n += textIn(v.Index(i))
		}
		return n
	}
	return 0
}
