package gateway

import "testing"

func TestBlockSizes(t *testing.T) {
	seen := map[int]int{}
	for n := 0; n <= largestBlock+1<<20; n += 1 + n/97 {
		size, place := blockSize(n)
		switch {
		case size < n:
			t.Fatalf("%d bytes: a block of %d", n, size)
		case n > largestBlock:
			if place != -1 || size != n {
				t.Fatalf("%d bytes: %d, place %d", n, size, place)
			}
			continue
		case place < 0 || place >= blockSizes:
			t.Fatalf("%d bytes: place %d", n, place)
		case n > smallestBlock && size > n+n/4:
			t.Fatalf("%d bytes: a block of %d", n, size)
		}
		if old, ok := seen[place]; ok && old != size {
			t.Fatalf("place %d is for %d and %d bytes", place, old, size)
		}
		seen[place] = size
		if again, at := blockSize(size); again != size || at != place {
			t.Fatalf("a block of %d is kept as one of %d", size, again)
		}
	}
	if len(seen) != blockSizes {
		t.Errorf("%d of %d places are used", len(seen), blockSizes)
	}
}

func TestABlockComesBack(t *testing.T) {
	b := getBlock(100_000)
	if len(*b) != 0 || cap(*b) < 100_000 {
		t.Fatalf("%d of %d", len(*b), cap(*b))
	}
	*b = append(*b, "something"...)
	putBlock(b)
	if c := getBlock(100_000); len(*c) != 0 || cap(*c) < 100_000 {
		t.Errorf("%d of %d", len(*c), cap(*c))
	}
	putBlock(nil)
}
