package spans

// Names of the spans.
const (
	workflow = "ai.workflow"     // the request
	primary  = "model.primary"   // an attempt on the primary
	fallback = "model.fallback"  // an attempt on another candidate
	failover = "failover.policy" // from one attempt's end to what followed
	parser   = "response.parser" // from the first output to the answer's end
)

// blocked is the event of a candidate that an open breaker passed by.
const blocked = "breaker.blocked"

// Attributes of spans and events.
const (
	attrRoute     = "ai.route"
	attrProvider  = "ai.provider"
	attrRequestID = "ai.request_id"
	attrOperation = "ai.operation_id"
	attrTriggered = "ai.fallback_triggered"
	attrAllowed   = "ai.fallback_allowed"
	attrStatus    = "ai.workflow_status"
	attrTask      = "ai.task_type"
	attrClass     = "ai.error_class"
	attrModel     = "ai.model"
	attrReason    = "ai.reason"
	attrNext      = "ai.next"
	attrWhy       = "ai.why"
	attrWait      = "ai.wait_ms"
	attrHTTP      = "http.response.status_code"
)
