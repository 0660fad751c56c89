package gateway

import (
	"time"

	"failback/gateway/config"
)

// JobPaces is how often those recurring jobs succeed that a configuration can
// make slower than once a minute, by their name in metrics and state.
func JobPaces(cfg *config.Config) map[string]time.Duration {
	paces := map[string]time.Duration{jobCertificates: certificateEvery, jobMetrics: cfg.Sources.Every}
	if every := mostEvery(cfg); every > 0 {
		paces[jobDependencies] = every
	}
	return paces
}
