package gateway

import (
	"context"

	"failback/gateway/operator"
	"failback/gateway/operator/api"
)

func (c *control) Incidents() api.Incidents { return api.Incidents{} }

func (c *control) Incident(id string) (api.Incident, error) {
	return api.Incident{}, notFound("incident", id)
}

func (c *control) ChangeIncident(_ context.Context, _ operator.Actor, _, id string, _ api.Command) (api.Result, error) {
	return api.Result{}, notFound("incident", id)
}
