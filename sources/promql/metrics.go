package promql

// The metrics that are asked for; see docs/metrics.md.
const (
	StartTime       = "failback_start_time_seconds"
	RequestsTotal   = "ai_model_requests_total"
	FallbacksTotal  = "ai_fallback_triggered_total"
	AttemptsTotal   = "ai_model_attempts_total"
	FirstOutput     = "ai_model_first_output_seconds"
	Workflow        = "ai_workflow_duration_seconds"
	BreakerState    = "failback_breaker_state"
	UpstreamState   = "failback_upstream_state"
	UpstreamRefuses = "failback_upstream_refuses"
	ShareRatio      = "failback_upstream_share_ratio"
	VerdictsTotal   = "failback_slo_requests_total"
	InTimeTotal     = "failback_slo_first_output_total"
	ObjectiveRatio  = "failback_slo_objective_ratio"
	BudgetSpent     = "failback_slo_budget_spent_ratio"
	BudgetBad       = "failback_slo_budget_bad_requests"
	OwnTotal        = "failback_upstream_own_requests_total"
	Weight          = "failback_upstream_weight"
	BreakerBlocked  = "failback_breaker_blocked_total"
	TrafficSteps    = "failback_traffic_steps_total"
	ViolationsTotal = "failback_policy_violations_total"
	BreakerEnforced = "failback_breaker_enforced_ratio"
	RetryRefused    = "failback_retry_budget_refused_total"
	JobLate         = "failback_job_late"
	RetryBudget     = "failback_retry_budget_available"
	ClientRetries   = "failback_client_retries_total"
	JobSuccess      = "failback_job_last_success_timestamp_seconds"
	SpansTotal      = "failback_trace_spans_total"
	LinesDropped    = "failback_log_lines_dropped_total"

	// TargetUp is Prometheus's own.
	TargetUp = "up"
)
