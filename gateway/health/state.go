package health

// State is the health of an upstream.
type State string

// The states.
const (
	Healthy    State = "healthy"
	Suspect    State = "suspect"
	Degraded   State = "degraded"
	Recovering State = "recovering"
)
