package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"failback/gateway/decision"
)

func openAIErr(message, typ, param, code string) string {
	quote := func(s string) string {
		if s == "" {
			return "null"
		}
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf(`{"error":{"message":%q,"type":%s,"param":%s,"code":%s}}`, message, quote(typ), quote(param), quote(code))
}

func anthropicErr(typ, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, typ, message)
}

// What no rule names is alarmed: the alarm has to say what it was.
func TestAnUnknownStatusIsNamed(t *testing.T) {
	for status, want := range map[int]string{
		451: "status 451, which no rule names", 418: "status 418, which no rule names", 302: "a redirect, which is not followed",
	} {
		if v := JudgeError(decision.OpenAI, status, http.Header{}, nil); v.Class != decision.Unknown || v.Detail != want {
			t.Errorf("%d: %s, %q", status, v.Class, v.Detail)
		}
	}
}

func TestJudgeErrorClasses(t *testing.T) {
	const invalid = "invalid_request_error"
	for _, tc := range []struct {
		status int
		body   string
		class  decision.Class
	}{
		// The status alone.
		{300, ``, decision.Unknown}, {301, `<html>`, decision.Unknown}, {302, ``, decision.Unknown}, {307, `{"error":{"type":"overloaded_error"}}`, decision.Unknown},
		{400, ``, decision.InvalidRequest}, {409, ``, decision.InvalidRequest}, {413, ``, decision.InvalidRequest}, {422, `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}`, decision.InvalidRequest},
		{401, ``, decision.Credential}, {403, ``, decision.Credential}, {403, `<html>Sorry, you have been blocked</html>`, decision.Credential},
		{402, ``, decision.QuotaExhausted},
		{404, ``, decision.ModelGone}, {410, ``, decision.ModelGone}, {404, "404 page not found", decision.ModelGone},
		{405, ``, decision.Unknown}, {406, ``, decision.Unknown}, {418, ``, decision.Unknown}, {451, ``, decision.Unknown}, {499, ``, decision.Unknown}, {600, ``, decision.Unknown}, {0, ``, decision.Unknown}, {101, ``, decision.Unknown},
		{451, openAIErr("Unavailable for legal reasons", invalid, "", ""), decision.Unknown},
		{408, ``, decision.ServerError}, {425, ``, decision.ServerError},
		{429, ``, decision.RateLimited}, {429, "Too Many Requests", decision.RateLimited},
		{500, ``, decision.ServerError}, {501, ``, decision.ServerError}, {502, `<html>Bad gateway</html>`, decision.ServerError}, {504, ``, decision.ServerError}, {520, ``, decision.ServerError}, {599, ``, decision.ServerError},
		{503, ``, decision.Overloaded}, {529, ``, decision.Overloaded},
		{503, openAIErr("x", "server_error", "", ""), decision.Overloaded},
		{500, openAIErr("The server had an error", "server_error", "", ""), decision.ServerError},
		{500, openAIErr("x", invalid, "", ""), decision.ServerError},
		{400, `{"error":{"message":"cut in the mid`, decision.InvalidRequest},

		// OpenAI.
		{429, openAIErr("Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.", "tokens", "", "rate_limit_exceeded"), decision.RateLimited},
		{429, openAIErr("Request rate increased too quickly", "rate_limit_error", "", "slow_down"), decision.RateLimited},
		{503, openAIErr("Request rate increased too quickly", "rate_limit_error", "", "slow_down"), decision.RateLimited},
		{429, openAIErr("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "", "insufficient_quota"), decision.QuotaExhausted},
		{429, openAIErr("You exceeded your current quota, please check your plan and billing details.", "", "", ""), decision.QuotaExhausted},
		{429, openAIErr("x", "", "", "credit_balance_exhausted"), decision.QuotaExhausted},
		{400, openAIErr("Billing hard limit has been reached", invalid, "", "billing_hard_limit_reached"), decision.QuotaExhausted},
		{429, openAIErr("Your account is not active, please check your billing details on our website.", "billing_not_active", "", "billing_not_active"), decision.QuotaExhausted},
		{503, openAIErr("x", "service_unavailable_error", "", "server_is_overloaded"), decision.Overloaded},
		{401, openAIErr("Incorrect API key provided: sk-a***b.", invalid, "", "invalid_api_key"), decision.Credential},
		{403, openAIErr("Country, region, or territory not supported", "request_forbidden", "", "unsupported_country_region_territory"), decision.Credential},
		{403, openAIErr("Project `p` does not have access to model `gpt-x`", invalid, "", "model_not_found"), decision.ModelGone},
		{403, openAIErr("You are not allowed to generate embeddings from this model", invalid, "", ""), decision.InvalidRequest},
		{404, openAIErr("The model `gpt-x` does not exist or you do not have access to it.", invalid, "", "model_not_found"), decision.ModelGone},
		{404, openAIErr("The model `gpt-x` has been deprecated, learn more here", invalid, "", "model_not_found"), decision.ModelGone},
		{404, openAIErr("This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?", invalid, "model", ""), decision.InvalidRequest},
		{400, openAIErr("Previous response with id 'resp_1' not found.", invalid, "previous_response_id", "previous_response_not_found"), decision.InvalidRequest},
		{404, openAIErr("No such File object: file-1", invalid, "id", ""), decision.InvalidRequest},
		{404, openAIErr("Item with id 'rs_1' not found.", invalid, "input", ""), decision.InvalidRequest},
		{400, openAIErr("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", invalid, "messages", "context_length_exceeded"), decision.ContextLength},
		{400, openAIErr("This model's maximum context length is 8192 tokens.", invalid, "", ""), decision.ContextLength},
		{400, openAIErr("Your input exceeds the context window of this model.", invalid, "input", ""), decision.ContextLength},
		{400, openAIErr("max_tokens is too large: 200000. This model supports at most 16384 completion tokens", invalid, "max_tokens", "invalid_value"), decision.InvalidRequest},
		{400, openAIErr("Your request was rejected as a result of our safety system.", invalid, "", "content_policy_violation"), decision.ContentFilter},
		{400, openAIErr("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", invalid, "", "invalid_prompt"), decision.ContentFilter},
		{400, openAIErr("Invalid schema for function 'f': In context=(), 'x' is not valid", invalid, "tools[0].function.parameters", "invalid_function_parameters"), decision.InvalidRequest},
		{400, openAIErr("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", invalid, "messages", ""), decision.InvalidRequest},

		// Anthropic.
		{400, anthropicErr(invalid, "messages.0.content: bad"), decision.InvalidRequest},
		{400, anthropicErr(invalid, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), decision.QuotaExhausted},
		{400, anthropicErr(invalid, "You have reached your specified API usage limits. You will regain access on 2026-01-01 at 00:00 UTC."), decision.QuotaExhausted},
		{400, anthropicErr(invalid, "This organization has been disabled."), decision.Credential},
		{400, anthropicErr(invalid, "prompt is too long: 210000 tokens > 200000 maximum"), decision.ContextLength},
		{400, anthropicErr(invalid, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"), decision.ContextLength},
		{400, anthropicErr(invalid, "max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens for claude-x"), decision.InvalidRequest},
		{400, anthropicErr(invalid, "Output blocked by content filtering policy"), decision.ContentFilter},
		{400, anthropicErr(invalid, "messages.1.content.0.tool_use.input: Input should be a valid dictionary"), decision.InvalidRequest},
		{401, anthropicErr("authentication_error", "invalid x-api-key"), decision.Credential},
		{402, anthropicErr("billing_error", "x"), decision.QuotaExhausted},
		{403, anthropicErr("permission_error", "x"), decision.Credential},
		{404, anthropicErr("not_found_error", "model: claude-x"), decision.ModelGone},
		{404, anthropicErr("not_found_error", "File not found: file_1"), decision.InvalidRequest},
		{413, anthropicErr("request_too_large", "Request exceeds the maximum size"), decision.InvalidRequest},
		{429, anthropicErr("rate_limit_error", "This request would exceed your organization's rate limit of 80,000 input tokens per minute (org: o, model: claude-x)."), decision.RateLimited},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`, decision.QuotaExhausted},
		{429, anthropicErr("rate_limit_error", "This request would exceed your workspace's spend limit."), decision.QuotaExhausted},
		{500, anthropicErr("api_error", "Internal server error"), decision.ServerError},
		{504, anthropicErr("timeout_error", "x"), decision.ServerError},
		{529, anthropicErr("overloaded_error", "Overloaded"), decision.Overloaded},
		{500, anthropicErr("overloaded_error", "Overloaded"), decision.Overloaded},
		{400, anthropicErr("overloaded_error", "Overloaded"), decision.Overloaded},
		{400, anthropicErr("rate_limit_error", "x"), decision.RateLimited},
		{400, anthropicErr("authentication_error", "x"), decision.Credential},

		// Azure, Google, AWS.
		{404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, decision.ModelGone},
		{400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, decision.ContentFilter},
		{429, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds."}}`, decision.RateLimited},
		{403, `{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 01:22:33."}`, decision.QuotaExhausted},
		{400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`, decision.Credential},
		{400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, decision.Credential},
		{400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, decision.Credential},
		{400, `{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, decision.ContextLength},
		{429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31.5s"}]}}`, decision.RateLimited},
		{404, `{"error":{"code":404,"message":"models/gemini-x is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}`, decision.ModelGone},
		{503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, decision.Overloaded},
		{400, `{"__type":"com.amazon.coral.service#ThrottlingException","message":"Too many requests"}`, decision.RateLimited},
		{400, `{"message":"The provided model identifier is invalid."}`, decision.ModelGone},
		{403, `{"message":"You don't have access to the model with the specified model ID."}`, decision.ModelGone},
		{403, `{"message":"The security token included in the request is expired"}`, decision.Credential},

		// Those that resemble them.
		{400, openAIErr("The model `llama` has been decommissioned and is no longer supported.", invalid, "", "model_decommissioned"), decision.ModelGone},
		{400, `{"error":{"message":"foo/bar is not a valid model ID","code":400}}`, decision.ModelGone},
		{400, `{"object":"error","message":"Invalid model: foo","type":"invalid_model","param":null,"code":"1500"}`, decision.ModelGone},
		{400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, decision.ModelGone},
		{404, `{"object":"error","message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`, decision.ModelGone},
		{402, `{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}}`, decision.QuotaExhausted},
		{400, `{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}`, decision.QuotaExhausted},
		{400, `{"error":{"type":"exceed_context_size_error","code":400,"message":"the request exceeds the available context size"}}`, decision.ContextLength},
		{413, openAIErr("Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9000", "tokens", "", "rate_limit_exceeded"), decision.RateLimited},
	} {
		dialect := decision.OpenAI
		if strings.HasPrefix(tc.body, `{"type":"error"`) {
			dialect = decision.Anthropic
		}
		if v := JudgeError(dialect, tc.status, nil, []byte(tc.body)); v.Class != tc.class {
			t.Errorf("%d %s: %s, want %s", tc.status, tc.body, v.Class, tc.class)
		}
	}
}

// What a caller wrote may be repeated in an error. It must not take a key or a
// model out of use for everybody else.
func TestCallersWordsDecideNothing(t *testing.T) {
	for _, words := range []string{
		"API key not valid", "Your credit balance is too low", "This organization has been disabled",
		"You exceeded your current quota", "the model does not exist", "User location is not supported",
		"x' Your credit balance is too low", "invalid_api_key", "insufficient_quota", "model_not_found",
	} {
		for _, body := range []string{
			openAIErr("Invalid value: '"+words+"'. Supported values are: 'user' and 'system'.", "invalid_request_error", "messages[0].role", "invalid_value"),
			openAIErr("Invalid value: '"+words+"'. Supported values are: 'user' and 'system'.", "invalid_request_error", "", ""),
			openAIErr(words, "invalid_request_error", "messages[0].content", ""),
			anthropicErr("invalid_request_error", "messages.0.role: "+words),
			anthropicErr("invalid_request_error", "Unexpected role \""+words+"\"."),
			`{"detail":[{"loc":["body","messages",0,"role"],"msg":"unexpected value; permitted: 'user'","input":"` + words + `"}]}`,
		} {
			for _, status := range []int{400, 422} {
				if v := JudgeError(decision.OpenAI, status, nil, []byte(body)); v.Class != decision.InvalidRequest {
					t.Errorf("%d %s: %s", status, body, v.Class)
				}
			}
		}
	}
}

func TestJudgeErrorNamesModel(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   bool
	}{
		{404, openAIErr("The model `gpt-x` does not exist", "invalid_request_error", "", "model_not_found"), true},
		{404, anthropicErr("not_found_error", "model: claude-x"), true},
		{404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, true},
		{404, "404 page not found", false},
		{404, `{"error":{"code":404,"message":"models/gemini-x is not found"}}`, true},
		{429, openAIErr("Rate limit reached for gpt-x in organization org-1 on tokens per min", "tokens", "", "rate_limit_exceeded"), true},
		{429, anthropicErr("rate_limit_error", "This would exceed the rate limit (org: o, model: claude-x)."), true},
		{429, anthropicErr("rate_limit_error", "Number of requests has exceeded your rate limit"), false},
		{429, anthropicErr("rate_limit_error", "Remodelling is a supermodel's modelling"), false},
		{529, anthropicErr("overloaded_error", "Overloaded"), false},
		{529, anthropicErr("overloaded_error", "The model claude-x is overloaded"), true},
		{503, `{"error":{"message":"That model is currently overloaded with other requests."}}`, true},
		{500, openAIErr("The model produced an error", "server_error", "", ""), false},
		{400, openAIErr("The model does not take images", "invalid_request_error", "model", ""), false},
	} {
		if v := JudgeError(decision.OpenAI, tc.status, nil, []byte(tc.body)); v.NamesModel != tc.want {
			t.Errorf("%d %s: NamesModel %t, class %s", tc.status, tc.body, v.NamesModel, v.Class)
		}
	}
	for _, tc := range []struct {
		body, model string
		want        bool
	}{
		{"limit for gpt-5 reached", "gpt-5", true},
		{"limit for gpt-5-mini reached", "gpt-5", false},
		{"gpt-5-mini and gpt-5", "gpt-5", true},
		{`"models/gpt-5"`, "gpt-5", true},
		{"my-gpt-5", "gpt-5", false},
		{"gpt-5", "", false},
		{"", "gpt-5", false},
	} {
		if got := NamesModel([]byte(tc.body), tc.model); got != tc.want {
			t.Errorf("NamesModel(%q, %q) = %t", tc.body, tc.model, got)
		}
	}
}

func TestJudgeErrorCode(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{openAIErr("x", "invalid_request_error", "", "model_not_found"), "model_not_found"},
		{openAIErr("x", "invalid_request_error", "", "unknown_parameter"), "unknown_parameter"},
		{openAIErr("x", "tokens", "", "rate_limit_exceeded"), "rate_limit_exceeded"},
		{openAIErr("x", "invalid_request_error", "", ""), "invalid_request_error"},
		{anthropicErr("overloaded_error", "Overloaded"), "overloaded_error"},
		{`{"type":"error","error":{"details":{"error_code":"enforced_spend_limit_reached"},"type":"rate_limit_error"}}`, "enforced_spend_limit_reached"},
		{`{"error":{"code":"a\u001b[31mb\u202ec ` + strings.Repeat("x", 100) + `"}}`, "a[31mbc" + strings.Repeat("x", 57)},
		{`{"error":{"code":503}}`, ""},
		{`<html>`, ""},
	} {
		if v := JudgeError(decision.OpenAI, 400, nil, []byte(tc.body)); v.Code != tc.want {
			t.Errorf("%s: code %q, want %q", tc.body, v.Code, tc.want)
		}
	}
}

func TestJudgeErrorAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(kv ...string) http.Header {
			h := http.Header{}
			for i := 0; i < len(kv); i += 2 {
				h.Add(kv[i], kv[i+1])
			}
			return h
		}
		const google = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31.5s"}]}}`
		for _, tc := range []struct {
			status int
			h      http.Header
			body   string
			wait   time.Duration
			has    bool
			again  decision.Advice
		}{
			{503, h("Retry-After", "7", "X-Should-Retry", "false"), ``, 7 * time.Second, true, decision.No},
			{409, h("X-Should-Retry", "true"), ``, 0, false, decision.Yes},
			{409, h("X-Should-Retry", "maybe"), ``, 0, false, decision.NotGiven},
			{429, h("X-Ratelimit-Reset-Requests", "12s"), ``, 12 * time.Second, true, decision.NotGiven},
			{529, h("Anthropic-Ratelimit-Requests-Reset", time.Now().Add(time.Minute).UTC().Format(time.RFC3339)), ``, 0, false, decision.NotGiven},
			{429, h("Anthropic-Ratelimit-Requests-Reset", time.Now().Add(time.Minute).UTC().Format(time.RFC3339)), ``, time.Minute, true, decision.NotGiven},
			{503, h("X-Ratelimit-Reset-Tokens", "6m0s"), ``, 0, false, decision.NotGiven},
			{429, nil, google, 31500 * time.Millisecond, true, decision.NotGiven},
			{429, h("Retry-After", "2"), google, 2 * time.Second, true, decision.NotGiven},
		} {
			v := JudgeError(decision.OpenAI, tc.status, tc.h, []byte(tc.body))
			if v.RetryAfter != tc.wait || v.HasRetryAfter != tc.has || v.ShouldRetry != tc.again {
				t.Errorf("%d %v: %s %t, %d", tc.status, tc.h, v.RetryAfter, v.HasRetryAfter, v.ShouldRetry)
			}
		}
	})
}

// An error body is read as far as it goes, whatever it is.
func FuzzJudgeError(f *testing.F) {
	for _, s := range []string{
		openAIErr("x", "invalid_request_error", "model", "model_not_found"), anthropicErr("overloaded_error", "Overloaded"),
		`{"error":{"message":"cut \u00`, `[[[{"error":"'a"}]]]`, `"text"`, `<html>`, `{"message":{"message":{"message":"deep"}}}`, "'", "\"it's a `mess",
	} {
		f.Add(429, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		v := JudgeError(decision.OpenAI, status, nil, body)
		known := false
		for _, c := range decision.Classes {
			known = known || c == v.Class
		}
		if !known || v.Class == decision.OK || len(v.Code) > maxCode {
			t.Fatalf("%+v", v)
		}
		for _, ep := range Endpoints {
			if v := JudgeUnary(ep, body); v.Class == "" {
				t.Fatalf("%s: no class", ep)
			}
			j := NewStreamJudge(ep)
			m := j.Judge(body)
			if m.Kind == Error && m.Verdict.Class == "" || m.Kind == Terminal && m.Verdict.Class != decision.OK {
				t.Fatalf("%s: %+v", ep, m)
			}
			j.Judge(body)
			j.End()
		}
	})
}
