package telemetry

import (
	"failback/gateway/decision"
	"failback/gateway/operator/api"
)

// outcomeLayers are those that outcomes are reported for: whether an answer came
// is known without anybody's report.
var outcomeLayers = []string{api.LayerWorkflow, api.LayerSemantic, api.LayerTask}

func outcomeSeries() map[labels]bool {
	all := map[labels]bool{}
	for _, layer := range outcomeLayers {
		for _, route := range decision.Routes {
			for _, verdict := range []Verdict{Good, Bad} {
				all[labels{layer, string(route), string(verdict)}] = true
			}
		}
	}
	return all
}
