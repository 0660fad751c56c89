package logql

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads Go's notation ("1h30m", "1.5s") and Prometheus's, which
// has days, weeks and years ("1d12h"). It takes no sign.
func parseDuration(s string) (time.Duration, bool) {
	if s == "" || s[0] == '-' || s[0] == '+' {
		return 0, false
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, true
	}
	var total time.Duration
	last := time.Duration(math.MaxInt64)
	for s != "" {
		i := 0
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		n, err := strconv.ParseInt(s[:i], 10, 64)
		if err != nil {
			return 0, false
		}
		s = s[i:]
		var unit time.Duration
		switch {
		case strings.HasPrefix(s, "ms"):
			unit, s = time.Millisecond, s[2:]
		case s == "":
			return 0, false
		default:
			switch s[0] {
			case 'y':
				unit = 365 * 24 * time.Hour
			case 'w':
				unit = 7 * 24 * time.Hour
			case 'd':
				unit = 24 * time.Hour
			case 'h':
				unit = time.Hour
			case 'm':
				unit = time.Minute
			case 's':
				unit = time.Second
			default:
				return 0, false
			}
			s = s[1:]
		}
		if unit >= last { // largest first, each unit once
			return 0, false
		}
		last = unit
		if n > int64((math.MaxInt64-total)/unit) {
			return 0, false
		}
		total += time.Duration(n) * unit
	}
	return total, true
}

// formatDuration writes a duration as short as parseDuration reads it.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

var byteUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "ki": 1 << 10, "kib": 1 << 10,
	"m": 1e6, "mb": 1e6, "mi": 1 << 20, "mib": 1 << 20,
	"g": 1e9, "gb": 1e9, "gi": 1 << 30, "gib": 1 << 30,
	"t": 1e12, "tb": 1e12, "ti": 1 << 40, "tib": 1 << 40,
	"p": 1e15, "pb": 1e15, "pi": 1 << 50, "pib": 1 << 50,
	"e": 1e18, "eb": 1e18, "ei": 1 << 60, "eib": 1 << 60,
}

// parseBytes reads a size: "10", "1.5KB", "3 MiB". Commas in the number are
// ignored; kB is 1000 bytes and KiB 1024.
func parseBytes(s string) (uint64, error) {
	i, comma := 0, false
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' || s[i] == ',') {
		comma = comma || s[i] == ','
		i++
	}
	num := s[:i]
	if comma {
		num = strings.ReplaceAll(num, ",", "")
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil {
		return 0, err
	}
	unit := strings.ToLower(strings.TrimSpace(s[i:]))
	m, ok := byteUnits[unit]
	if !ok {
		return 0, fmt.Errorf("unhandled size name: %v", unit)
	}
	if f *= m; f >= math.MaxUint64 {
		return 0, fmt.Errorf("too large: %v", s)
	}
	return uint64(f), nil
}

// sizeUnits are those of a size in a query; values of labels may have more.
var sizeUnits = map[string]bool{
	"B": true, "k": true, "kB": true, "ki": true, "kiB": true, "K": true, "KB": true, "Ki": true, "KiB": true,
	"M": true, "MB": true, "Mi": true, "MiB": true, "G": true, "GB": true, "Gi": true, "GiB": true,
	"T": true, "TB": true, "Ti": true, "TiB": true,
}

// parseSize reads a size of a query. It is taken as Loki compares with it, which
// hands queries on as text: in decimal units, with a digit behind the point if
// there is one before it and with none else. 1KiB is 1000, and 1536B is 1500.
func parseSize(s string) (uint64, bool) {
	if !sizeUnits[strings.TrimLeft(s, "0123456789.")] {
		return 0, false
	}
	n, err := parseBytes(s)
	if err != nil || n < 10 {
		return n, err == nil
	}
	unit := 1.0
	for float64(n)/unit >= 1000 {
		unit *= 1000
	}
	if unit == 1 {
		return n, true
	}
	v := math.Floor(float64(n)/unit*10+.5) / 10
	if v >= 10 {
		v = math.RoundToEven(v)
	}
	return uint64(math.Round(v * unit)), true
}
