package wire

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"failback/gateway/decision"
)

// telltale are the codes and types that say more than the status they come
// with, whatever that is. Sources are the vendors' error references and SDKs;
// words of one vendor do not clash with another's.
var telltale = map[string]decision.Class{
	// OpenAI; for credit_balance_exhausted see its guide to error codes.
	"insufficient_quota":                   decision.QuotaExhausted,
	"credit_balance_exhausted":             decision.QuotaExhausted,
	"billing_hard_limit_reached":           decision.QuotaExhausted,
	"billing_not_active":                   decision.QuotaExhausted,
	"invalid_api_key":                      decision.Credential,
	"account_deactivated":                  decision.Credential,
	"access_terminated":                    decision.Credential,
	"ip_not_authorized":                    decision.Credential,
	"unsupported_country_region_territory": decision.Credential,
	"model_not_found":                      decision.ModelGone,
	"model_deprecated":                     decision.ModelGone,
	"model_retired":                        decision.ModelGone,
	"deprecated_model":                     decision.ModelGone,
	"context_length_exceeded":              decision.ContextLength,
	"context_window_exceeded":              decision.ContextLength,
	"content_policy_violation":             decision.ContentFilter,
	"content_filter":                       decision.ContentFilter,
	"image_content_policy_violation":       decision.ContentFilter,
	"moderation_blocked":                   decision.ContentFilter,
	"previous_response_not_found":          decision.InvalidRequest,
	"slow_down":                            decision.RateLimited,
	"server_is_overloaded":                 decision.Overloaded,
	"engine_overloaded":                    decision.Overloaded,

	// Anthropic.
	"enforced_spend_limit_reached": decision.QuotaExhausted,
	"billing_error":                decision.QuotaExhausted,
	"overloaded_error":             decision.Overloaded,

	// Azure.
	"deploymentnotfound":           decision.ModelGone,
	"modeldeprecated":              decision.ModelGone,
	"responsibleaipolicyviolation": decision.ContentFilter,

	// Google.
	"api_key_invalid":         decision.Credential,
	"api_key_expired":         decision.Credential,
	"api_key_service_blocked": decision.Credential,
	"consumer_suspended":      decision.Credential,
	"consumer_invalid":        decision.Credential,
	"service_disabled":        decision.Credential,
	"billing_disabled":        decision.QuotaExhausted,

	// AWS.
	"unrecognizedclientexception":   decision.Credential,
	"invalidsignatureexception":     decision.Credential,
	"expiredtokenexception":         decision.Credential,
	"throttlingexception":           decision.RateLimited,
	"servicequotaexceededexception": decision.QuotaExhausted,
	"modelnotreadyexception":        decision.Overloaded,
	"serviceunavailableexception":   decision.Overloaded,

	// Those that resemble OpenAI: Groq, Mistral, Moonshot, Qwen, llama.cpp, one-api.
	"model_decommissioned":         decision.ModelGone,
	"invalid_model":                decision.ModelGone,
	"model_overloaded":             decision.Overloaded,
	"engine_overloaded_error":      decision.Overloaded,
	"insufficient_balance":         decision.QuotaExhausted,
	"insufficient_credits":         decision.QuotaExhausted,
	"insufficient_user_quota":      decision.QuotaExhausted,
	"exceeded_current_quota_error": decision.QuotaExhausted,
	"arrearage":                    decision.QuotaExhausted,
	"invalid_authentication_error": decision.Credential,
	"organization_restricted":      decision.Credential,
	"data_inspection_failed":       decision.ContentFilter,
	"exceed_context_size_error":    decision.ContextLength,
	"tokens_limit_reached":         decision.ContextLength,
}

// rank orders classes by how much a word for them tells where an error holds
// words for several.
var rank = map[decision.Class]int{
	decision.QuotaExhausted: 8, decision.Credential: 7, decision.ContextLength: 6, decision.ContentFilter: 5,
	decision.ModelGone: 4, decision.InvalidRequest: 3, decision.RateLimited: 2, decision.Overloaded: 1,
}

// statuses are the codes and types that say no more than a status does.
var statuses = map[string]int{
	"invalid_request_error": 400, "bad_request": 400, "badrequesterror": 400, "badrequest": 400, "invalid_argument": 400,
	"failed_precondition": 400, "validation_error": 400, "validationexception": 400, "invalid_prompt": 400,
	"invalid_request": 400, "unprocessableentityerror": 422,
	"authentication_error": 401, "authenticationerror": 401, "unauthenticated": 401, "unauthorized": 401,
	"payment_required": 402,
	"permission_error": 403, "permission_denied": 403, "permissiondeniederror": 403, "accessdeniedexception": 403, "forbidden": 403,
	"not_found_error": 404, "not_found": 404, "notfounderror": 404, "resourcenotfoundexception": 404,
	"timeout": 504, "timeout_error": 504, "deadline_exceeded": 504, "request_timeout": 408, "gateway_timeout": 504,
	"conflict_error": 409, "request_too_large": 413,
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "rate_limit_reached": 429, "too_many_requests": 429,
	"ratelimiterror": 429, "toomanyrequests": 429, "resource_exhausted": 429,
	"api_error": 500, "server_error": 500, "internal_error": 500, "internal_server_error": 500, "internalservererror": 500,
	"internal": 500, "apierror": 500, "internalserverexception": 500, "upstream_error": 502, "bad_gateway": 502,
	"service_unavailable_error": 503, "service_unavailable": 503, "serviceunavailable": 503, "unavailable": 503,
	"overloaded": 529,
}

// telling says how much a code tells an operator.
func telling(word string) int {
	if _, ok := telltale[word]; ok {
		return 3
	}
	switch status := statuses[word]; {
	case status == 0:
		return 1
	case status == 400, status == 500:
		return 0
	}
	return 2
}

// Texts that say more than status and code do, in lower case. Where a mistaken
// match would take a key or a model out of use, the text has to begin with
// one: what a caller wrote may be repeated further on.
var (
	quotaTexts = []string{
		"credit balance is too low", "you have reached your specified", "exceeded your current quota", "insufficient balance",
		"insufficient credit", "insufficient quota", "not enough credits", "out of credits", "requires more credits",
		"out of call volume quota", "billing hard limit", "account is not active", "in good standing",
		"reached its spend limit", "reached your spend limit", "exceeded your spend limit", "spend limit", "spending limit",
		"spending cap", "monthly usage limit", "payment required",
	}
	credentialTexts = []string{
		"api key not valid", "api key not found", "api key expired", "api key is expired", "invalid api key", "incorrect api key",
		"api key is invalid", "invalid x-api-key", "invalid bearer token", "invalid authentication",
		"user location is not supported", "country, region, or territory", "location is not supported", "region is not supported",
		"organization has been disabled", "account has been disabled", "account has been suspended", "account has been deactivated",
		"account is suspended", "account is disabled", "organization is disabled",
		"credential is only authorized", "security token included in the request is",
	}
	contextTexts = []string{
		"maximum context length", "context length", "context window", "context limit", "context size", "prompt is too long",
		"input is too long", "input length exceeds", "too many tokens", "maximum number of tokens", "reduce the length of",
	}
	filterTexts = []string{
		"content management policy", "content policy", "content filter", "safety system", "usage polic", "safety polic",
		"been flagged", "was flagged", "moderation", "inappropriate content", "responsible ai",
	}
	goneTexts = []string{
		"does not exist", "not exist", "not found", "has been deprecated", "is deprecated", "decommissioned", "has been retired",
		"is retired", "no longer available", "no longer supported", "end of life", "end of its life", "identifier is invalid",
	}
	accessTexts = []string{
		"access to model", "access to the model", "access to this model", "access to that model", "access to the requested model",
	}
	otherThings = []string{
		"response with id", "previous response", "item with id", "file", "container", "vector store", "conversation", "prompt with id", "assistant",
	}
)

// classify returns the class of an error that came with status, or inside an
// answer that was successful by its status. bad_response if nothing is known.
func classify(status int, c *complaint) decision.Class {
	if status < 300 {
		status = c.wouldBe()
	} else if status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge {
		// Some say with these what they mean by another.
		for _, w := range c.words {
			switch as := statuses[w]; {
			case as == 401, as == 402, as == 403, as == 429, as >= 500:
				status = as
			}
		}
	}
	if class := c.byWord(); class != "" {
		return class
	}
	if class := c.byText(status); class != "" {
		return class
	}
	switch status {
	case 0:
		return decision.BadResponse
	case 400, 409, 413, 422:
		return decision.InvalidRequest
	case 401, 403:
		return decision.Credential
	case 402:
		return decision.QuotaExhausted
	case 404, 410:
		return decision.ModelGone
	case 408, 425:
		return decision.ServerError
	case 429:
		return decision.RateLimited
	case 503, 529:
		return decision.Overloaded
	}
	if status >= 500 && status <= 599 {
		return decision.ServerError
	}
	return decision.Unknown
}

// wouldBe returns the status an error without one would have had; 0 if that
// cannot be told.
func (c *complaint) wouldBe() int {
	if c.status >= 400 && c.status <= 599 {
		return c.status
	}
	for _, w := range c.words {
		if s := statuses[w]; s != 0 {
			return s
		}
	}
	has := func(parts ...string) bool {
		for _, w := range c.words {
			for _, p := range parts {
				if strings.Contains(w, p) {
					return true
				}
			}
		}
		return false
	}
	switch {
	case has("overload", "unavailable", "capacity"):
		return 529
	case has("rate_limit", "ratelimit", "throttl", "too_many"):
		return 429
	case has("auth", "api_key"):
		return 401
	case has("invalid", "unsupported", "bad_request", "validation", "too_large", "image"):
		return 400
	case has("server", "internal", "timeout", "upstream"):
		return 500
	case contains(c.text, "overloaded"):
		return 529
	case contains(c.text, "rate limit", "too many requests"):
		return 429
	}
	return 0
}

func (c *complaint) byWord() decision.Class {
	var best decision.Class
	for _, w := range c.words {
		if class := telltale[w]; rank[class] > rank[best] {
			best = class
		}
	}
	return best
}

// byText looks at the message where status alone may mislead.
func (c *complaint) byText(status int) decision.Class {
	text := c.text
	if text == "" {
		return ""
	}
	// An error about some field of the request is about what the caller wrote.
	aboutUs := c.param == "" || c.param == "model"
	caller := status == 400 || status == 403 || status == 422 || status == 0
	switch {
	case status == 429:
		if c.wait == 0 && contains(text, quotaTexts...) && !contains(text, "per minute", "per second", "rate limit") {
			return decision.QuotaExhausted
		}
	case aboutUs && caller && opens(text, quotaTexts):
		return decision.QuotaExhausted
	case aboutUs && caller && opens(text, credentialTexts):
		return decision.Credential
	case (caller || status == 413 || status == 500) && contains(text, contextTexts...):
		return decision.ContextLength
	case caller && contains(text, filterTexts...):
		return decision.ContentFilter
	case (caller || status == 404) && wrongUse(text):
		return decision.InvalidRequest
	case aboutUs && caller && modelGone(text), aboutUs && status == 403 && contains(text, accessTexts...):
		return decision.ModelGone
	case status == 404 && !contains(text, "model") && contains(text, otherThings...):
		return decision.InvalidRequest
	case status == 500 && contains(text, "overloaded"):
		return decision.Overloaded
	}
	return ""
}

// wrongUse reports whether a text says that the model is there but not for
// this endpoint: the caller's mistake, and no reason to do without the model.
func wrongUse(text string) bool {
	return contains(text, "v1/") && contains(text, "supported", "did you mean") ||
		contains(text, "not allowed to generate embeddings", "not allowed to sample")
}

// modelGone reports whether a text says that the model is not there any more,
// or never was.
func modelGone(text string) bool {
	if opens(text, []string{"invalid model", "unknown model", "unsupported model", "no such model"}) {
		return true
	}
	if i := strings.Index(text, " is not a valid model"); i >= 0 && i <= 100 && !strings.Contains(text[:i], " ") {
		return true
	}
	i := strings.Index(text, "model")
	if i < 0 || !innocent(text[:i]) {
		return false
	}
	const near = 120
	return contains(text[i:min(len(text), i+near)], goneTexts...)
}

func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// opens reports whether one of parts stands at the beginning of text, after a
// few plain words at most.
func opens(text string, parts []string) bool {
	for _, p := range parts {
		if i := strings.Index(text, p); i >= 0 && innocent(text[:i]) {
			return true
		}
	}
	return false
}

// innocent reports whether lead is a few words that repeat nobody: no quotes,
// colons or figures.
func innocent(lead string) bool {
	const most = 40
	if len(lead) > most {
		return false
	}
	for i := range len(lead) {
		if c := lead[i]; c-'a' > 'z'-'a' && c != ' ' && c != '.' && c != ',' {
			return false
		}
	}
	return true
}

// aboutModel reports whether the error speaks of the model rather than of all
// the upstream does.
func (c *complaint) aboutModel() bool {
	if c.param == "model" {
		return true
	}
	for _, w := range c.words {
		if strings.HasPrefix(w, "model") || strings.HasSuffix(w, "_model") || w == "deploymentnotfound" {
			return true
		}
	}
	for rest := c.text; ; {
		i := strings.Index(rest, "model")
		if i < 0 {
			break
		}
		before, after := i > 0 && rest[i-1]-'a' <= 'z'-'a', rest[i+len("model"):]
		if !before && (after == "" || after[0]-'a' > 'z'-'a' || strings.HasPrefix(after, "s/")) {
			return true
		}
		rest = after
	}
	// OpenAI: "Rate limit reached for gpt-x in organization org-y on tokens per min".
	return strings.Contains(c.text, " for ") && strings.Contains(c.text, " in organization ")
}

// fill completes a verdict of an error's class with what the error says.
func (c *complaint) fill(v *Verdict) {
	switch v.Class {
	case decision.ModelGone, decision.RateLimited, decision.Overloaded:
		v.NamesModel = c.aboutModel()
	}
	if c.wait > 0 && !v.HasRetryAfter && (v.Class == decision.RateLimited || v.Class == decision.Overloaded) {
		v.RetryAfter, v.HasRetryAfter = c.wait, true
	}
	v.Code = c.code
}

// inBand makes v the verdict on an error in an answer that was successful by
// its status.
func inBand(v *Verdict, c complaint) {
	v.Class = classify(http.StatusOK, &c)
	c.fill(v)
}

// JudgeError classifies an answer with a status other than 2xx. The body may
// be cut.
func JudgeError(d decision.Dialect, status int, h http.Header, body []byte) Verdict {
	var v Verdict
	if status < 300 || status >= 400 {
		c := readComplaint(body)
		v.Class = classify(max(status, 300), &c) // below it is no error, and no answer we know
		now := time.Now()
		v.RetryAfter, v.HasRetryAfter = asked(h, now)
		c.fill(&v)
		if !v.HasRetryAfter && v.Class == decision.RateLimited {
			v.RetryAfter, v.HasRetryAfter = windowEnd(h, now)
		}
		switch {
		case c.html:
			v.Detail = "HTML or XML instead of an error"
		case v.Class == decision.Unknown:
			v.Detail = "status " + strconv.Itoa(status) + ", which no rule names"
		}
	} else {
		v.Class, v.Detail = decision.Unknown, "a redirect, which is not followed"
	}
	switch h.Get("X-Should-Retry") {
	case "true":
		v.ShouldRetry = decision.Yes
	case "false":
		v.ShouldRetry = decision.No
	}
	return v
}

// NamesModel reports whether an error body mentions model by name, outside
// longer words. JudgeError does not know the model that was asked for; who
// does can tell better whether a 404, 429, 503 or 529 was about the model only.
func NamesModel(body []byte, model string) bool {
	if model == "" {
		return false
	}
	part := func(c byte) bool { return c == '-' || c == '_' || lower(c)-'a' <= 'z'-'a' || c-'0' <= 9 }
	name := []byte(model)
	for at := 0; ; {
		i := bytes.Index(body[at:], name)
		if i < 0 {
			return false
		}
		start := at + i
		end := start + len(name)
		if (start == 0 || !part(body[start-1])) && (end == len(body) || !part(body[end])) {
			return true
		}
		at = start + 1
	}
}
