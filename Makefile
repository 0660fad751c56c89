# Measured side by side in one run; see bench/doc.go.
.PHONY: bench
bench:
	go run ./bench
