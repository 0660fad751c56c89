package wire

import (
	"net/http"
	"testing"

	"failback/gateway/decision"
)

func BenchmarkJudgeError(b *testing.B) {
	limits := http.Header{"Retry-After": {"2"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"1.5s"}}
	for _, bc := range []struct {
		name   string
		d      decision.Dialect
		status int
		h      http.Header
		body   string
		want   decision.Class
	}{
		{"500", decision.OpenAI, 500, nil, "", decision.ServerError},
		{"429", decision.OpenAI, 429, limits, openAIErr("Rate limit reached", "rate_limit_error", "", "rate_limit_exceeded"), decision.RateLimited},
		{"context", decision.OpenAI, 400, nil, openAIErr("This model's maximum context length is 8192 tokens.", "invalid_request_error", "messages", "context_length_exceeded"), decision.ContextLength},
		{"overloaded", decision.Anthropic, 529, nil, anthropicErr("overloaded_error", "Overloaded"), decision.Overloaded},
	} {
		b.Run(bc.name, func(b *testing.B) {
			body := []byte(bc.body)
			b.ReportAllocs()
			for b.Loop() {
				if v := JudgeError(bc.d, bc.status, bc.h, body); v.Class != bc.want {
					b.Fatal(v.Class)
				}
			}
		})
	}
}
