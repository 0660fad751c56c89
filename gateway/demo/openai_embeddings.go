package demo

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
)

// defaultDimensions is the length of a vector of text-embedding-3-small.
const defaultDimensions = 1536

// inputs reads the input of an embeddings request: one text, many, or tokens.
func inputs(raw json.RawMessage) ([]string, bool) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, true
	}
	var many []string
	if json.Unmarshal(raw, &many) == nil && len(many) > 0 {
		return many, true
	}
	var tokens []int
	if json.Unmarshal(raw, &tokens) == nil && len(tokens) > 0 {
		return []string{string(raw)}, true
	}
	var lists [][]int
	if json.Unmarshal(raw, &lists) == nil && len(lists) > 0 {
		texts := make([]string, len(lists))
		for i, l := range lists {
			b, err := json.Marshal(l)
			if err != nil {
				return nil, false
			}
			texts[i] = string(b)
		}
		return texts, true
	}
	return nil, false
}

// embed returns a unit vector that depends on text alone.
func embed(text string, n int) []float32 {
	h := fnv.New64a()
	io.WriteString(h, text)
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	v, sum := make([]float32, n), 0.0
	for i := range v {
		f := rng.NormFloat64()
		v[i] = float32(f)
		sum += f * f
	}
	norm := float32(math.Sqrt(sum))
	for i := range v {
		v[i] /= norm
	}
	return v
}

func embeddings(x *exchange) error {
	var e struct {
		Model          string          `json:"model"`
		Input          json.RawMessage `json:"input"`
		Dimensions     int             `json:"dimensions"`
		EncodingFormat string          `json:"encoding_format"`
	}
	if err := x.read(&e, func() string { return e.Model }); err != nil {
		return err
	}
	texts, ok := inputs(e.Input)
	if !ok {
		return badRequest("input", "'input' must be text, a list of texts or tokens")
	}
	n := defaultDimensions
	if e.Dimensions > 0 {
		n = min(e.Dimensions, defaultDimensions)
	}
	tokens := 0
	data := make([]any, len(texts))
	for i, t := range texts {
		tokens += (len(t) + 3) / 4
		v := embed(t, n)
		var value any = v
		if e.EncodingFormat == "base64" {
			b := make([]byte, 0, 4*n)
			for _, f := range v {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
			value = base64.StdEncoding.EncodeToString(b)
		}
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": value}
	}
	// No tokens are generated: a quarter of a chat model's first token.
	if err := x.waitFirst(0.25); err != nil {
		return err
	}
	return x.sendWhole(map[string]any{
		"object": "list", "data": data, "model": e.Model,
		"usage": map[string]any{"prompt_tokens": tokens, "total_tokens": tokens},
	})
}
