package wire

import "failback/gateway/decision"

// ModelList returns the answer to a request for the list of models: names, in
// the order given, as one whole page.
func ModelList(d decision.Dialect, names []string) []byte {
	if d == decision.Anthropic {
		type model struct {
			Type        string `json:"type"`
			ID          string `json:"id"`
			DisplayName string `json:"display_name"`
			CreatedAt   string `json:"created_at"` // the epoch stands for unknown, as the API has it
		}
		page := struct {
			Data    []model `json:"data"`
			HasMore bool    `json:"has_more"`
			FirstID *string `json:"first_id"`
			LastID  *string `json:"last_id"`
		}{Data: []model{}}
		for _, n := range names {
			page.Data = append(page.Data, model{Type: "model", ID: n, DisplayName: n, CreatedAt: "1970-01-01T00:00:00Z"})
		}
		if len(names) > 0 {
			page.FirstID, page.LastID = &names[0], &names[len(names)-1]
		}
		return encode(page)
	}
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for _, n := range names {
		list.Data = append(list.Data, model{ID: n, Object: "model", OwnedBy: "failback"})
	}
	return encode(list)
}
