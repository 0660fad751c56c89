// Package logql owns a subset of LogQL: it reads a query and answers it over
// log lines a Source hands in. It never opens a file or a connection, never
// looks at a clock, and never answers a query differently from Loki: what is
// outside the subset is refused by its name (ParseError.Unsupported).
//
// Inside: stream selectors, line filters, json, logfmt, label filters,
// line_format, label_format, drop, keep, unwrap, the range and vector
// aggregations that are not named below, arithmetic, comparison, and/or/unless,
// vector(n), literals and offset. Outside: regexp, pattern, unpack, decolorize,
// ip(), the pattern line filters |> and !>, rate_counter, label_replace, sort,
// sort_desc, approx_topk, variants, group_left, group_right.
package logql
