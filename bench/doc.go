// Command bench owns the figures that one machine can measure side by side:
// failback, a bare httputil.ReverseProxy and the stub behind both alone, each a
// process of its own, in turns within one run. It prints a table of ratios.
//
// It judges nothing: on a shared machine only the ratios of one run mean
// something, and a person reads them.
//
//	go run ./bench            the table of ratios, about two minutes
//	go run ./bench -streams   2,000 open streams: memory of each, and what is left
//	go run ./bench -million   a million requests: memory on the way
//	go run ./bench -profile D processor profiles of failback under each load
package main
