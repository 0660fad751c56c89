package gateway

import (
	"time"

	"failback/gateway/config"
)

// firstOutputUnder is the limit of a model's objective for the first output, 0
// if it has none.
func firstOutputUnder(cfg *config.Config, model string) time.Duration {
	for _, m := range cfg.Models {
		if m.Name == model && m.SLO != nil && m.SLO.FirstOutput != nil {
			return m.SLO.FirstOutput.Under
		}
	}
	return 0
}
