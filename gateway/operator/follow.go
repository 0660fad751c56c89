package operator

import (
	"context"
	"net/http"
	"sync"
	"time"

	"failback/gateway/operator/api"
)

// takeStream takes one of the places of streams until give. Without a free one
// it has refused the request.
func (s *Server) takeStream(w http.ResponseWriter, r *http.Request, hint string) (give func(), ok bool) {
	k, _ := r.Context().Value(connKey{}).(conn)
	if !s.streams.take(!k.unix) {
		s.refuse(w, &api.Error{
			Code: api.CodeFailed, Message: "too many streams are open",
			Hint: hint, HTTPStatus: http.StatusServiceUnavailable,
		})
		return nil, false
	}
	return func() { s.streams.give(!k.unix) }, true
}

// follow serves what of the kept stays open, on a connection that it may take
// over. It is a stream as /events is: it has a place among them, and its
// context ends when its reader may not read any more or the server stops.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, h http.Handler) {
	give, ok := s.takeStream(w, r, "close a console, or what else follows")
	if !ok {
		return
	}
	defer give()
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		defer cancel()
		beat := time.NewTicker(s.pace.heartbeat)
		defer beat.Stop()
		for {
			select {
			case <-beat.C:
				id, refused := s.identify(r)
				if refused != nil {
					return
				}
				s.sessions.seen(r, id.name, s.o.Instance, false, time.Now())
			case <-s.closing:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	h.ServeHTTP(w, r.WithContext(ctx))
}
