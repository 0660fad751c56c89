# Measured side by side in one run; see bench/doc.go.
.PHONY: bench
bench:
	go run ./bench

# The pictures in the README, drawn from what the console really draws.
.PHONY: pictures
pictures:
	go test ./ui -count 1 -run TestPictures -v -pictures $(CURDIR)/docs/pictures
