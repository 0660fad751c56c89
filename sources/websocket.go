package sources

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

// upgrade asks for a websocket, by the same way and shown the same as any
// other question. The error is a *RemoteError; answered says that an HTTP
// answer, though not the one wanted, was there. ctx bounds the exchange alone.
func (r *remote) upgrade(ctx context.Context, req *http.Request) (c *websocket.Conn, secrets []string, answered bool, err error) {
	b := &bridge{r: r, req: req}
	d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return b, nil }}
	// The bridge has the server's address; this one is not used.
	c, _, err = d.DialContext(ctx, "ws://bridge/", nil)
	switch {
	case err == nil:
		return c, b.secrets, true, nil
	case b.err != nil:
		return nil, nil, b.answered, b.err
	}
	_ = b.Close()
	return nil, nil, true, r.fail(RemoteStranger, err, "it does not speak the websocket's protocol: "+oneLine(err.Error()))
}

// bridge is the connection of a websocket whose handshake is an exchange of a
// remote. It has no deadlines: Close ends what is under way.
type bridge struct {
	r   *remote
	req *http.Request

	head     bytes.Buffer // of the handshake, as far as it was written
	answer   io.Reader    // head and body of the answer; nil before it
	body     io.ReadWriteCloser
	secrets  []string
	answered bool
	err      error
}

// Write takes the handshake and, behind it, what is sent.
func (b *bridge) Write(p []byte) (int, error) {
	if b.body != nil {
		return b.body.Write(p)
	}
	b.head.Write(p)
	if bytes.Contains(b.head.Bytes(), []byte("\r\n\r\n")) {
		if err := b.exchange(); err != nil {
			b.err = err
			return 0, err
		}
	}
	return len(p), nil
}

func (b *bridge) exchange() error {
	asked, err := http.ReadRequest(bufio.NewReader(&b.head))
	if err != nil {
		return b.r.fail(RemoteSetup, err, "the websocket's handshake is not understood")
	}
	for _, name := range []string{"Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version"} {
		b.req.Header[name] = []string{asked.Header.Get(name)}
	}
	res, secrets, err := b.r.send(b.req)
	if err != nil {
		return err
	}
	b.answered, b.secrets = true, secrets
	body, ok := res.Body.(io.ReadWriteCloser)
	if res.StatusCode != http.StatusSwitchingProtocols || !ok {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRemoteError))
		if res.StatusCode/100 == 2 {
			if err := b.r.check(res, text); err != nil {
				return err
			}
			return b.r.fail(RemoteStranger, nil, fmt.Sprintf("%d where a websocket was asked for", res.StatusCode))
		}
		return b.r.refusal(res, text, secrets)
	}
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = res.Header.Write(&head) // a buffer takes all
	head.WriteString("\r\n")
	b.body, b.answer = body, io.MultiReader(&head, body)
	return nil
}

func (b *bridge) Read(p []byte) (int, error) {
	if b.answer == nil {
		return 0, errors.New("read before the handshake")
	}
	return b.answer.Read(p)
}

// Close may be called beside Read and Write.
func (b *bridge) Close() error {
	if b.body == nil {
		return nil
	}
	return b.body.Close()
}

func (*bridge) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*bridge) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*bridge) SetDeadline(time.Time) error      { return nil }
func (*bridge) SetReadDeadline(time.Time) error  { return nil }
func (*bridge) SetWriteDeadline(time.Time) error { return nil }
