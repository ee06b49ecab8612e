package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
)

// TokenHeader is the header of the control token.
const TokenHeader = "X-Control-Token"

// answerTimeout limits the time of a request to a server.
const answerTimeout = time.Minute

// Server has the flags that select a running server.
type Server struct {
	URL          command.URL `help:"Address of the server, such as http://127.0.0.1:8780. Default: CYSIM_URL."`
	ControlToken string      `placeholder:"TOKEN" help:"Control token of the server, if it has one."`
}

// base is the address of the server without the final slash.
func (s Server) base() string { return strings.TrimSuffix(string(s.URL), "/") }

// Show reads one member of the answer to GET /_sim/PATH.
func (s Server) Show(ctx context.Context, path, member string, into any) error {
	var body map[string]json.RawMessage
	if err := s.exchange(ctx, http.MethodGet, path, nil, &body); err != nil {
		return err
	}
	if err := json.Unmarshal(body[member], into); err != nil {
		return s.foreign(http.MethodGet, path, "200 OK")
	}
	return nil
}

// Change sends a value as JSON, or no body for nil.
func (s Server) Change(ctx context.Context, method, path string, value any) error {
	var body []byte
	if value != nil {
		var err error
		if body, err = json.Marshal(value); err != nil {
			return err
		}
	}
	return s.exchange(ctx, method, path, bytes.NewReader(body), nil)
}

// exchange sends a request and decodes its answer, unless into is nil.
func (s Server) exchange(ctx context.Context, method, path string, body io.Reader, into any) error {
	answer, err := s.send(ctx, method, path, body, httpbounds.AnswerLimit)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, s.base()+"/_sim/"+path, err)
	}
	if into != nil && json.Unmarshal(data, into) != nil {
		return s.foreign(method, path, answer.Status)
	}
	return nil
}

// send returns an answer of the control API of at most limit bytes, whose body the caller closes. An answer without
// success is an error.
func (s Server) send(ctx context.Context, method, path string, body io.Reader, limit int64) (*http.Response, error) {
	if s.URL == "" {
		return nil, command.BadInput(command.ErrNoServer)
	}
	url := s.base() + "/_sim/" + path
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("--url: %w", err))
	}
	if s.ControlToken != "" {
		req.Header.Set(TokenHeader, s.ControlToken)
	}
	transport, err := session.Transport(url)
	if err != nil {
		return nil, command.BadInput(err)
	}
	client := httpbounds.Client(http.Client{Transport: transport, Timeout: answerTimeout}, limit)
	answer, err := client.Do(req)
	switch {
	case errors.Is(err, httpbounds.ErrPage):
		return nil, fmt.Errorf("%w: not a server of cysim", err)
	case err != nil:
		return nil, fmt.Errorf("%w; is cysim serve running there?", err)
	case answer.StatusCode < http.StatusMultipleChoices:
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, s.refusal(method, path, answer)
}

// maxRefusal limits the text of an answer without success, in bytes.
const maxRefusal = 64 << 10

// refusal is the error of an answer without success. The control API answers one line of text.
func (s Server) refusal(method, path string, answer *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, s.base()+"/_sim/"+path, err)
	}
	text := command.OneLine(string(data))
	switch isText := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain"); {
	case answer.StatusCode == http.StatusUnauthorized:
		return command.BadInput(errors.New("the server requires its --control-token"))
	case !isText || text == "404 page not found":
		return s.foreign(method, path, answer.Status)
	case answer.StatusCode == http.StatusBadRequest:
		return command.BadInput(errors.New(text))
	}
	return errors.New(cmp.Or(text, answer.Status))
}

// foreign is the error of an answer that no server of cysim gives, or that has no such route.
func (s Server) foreign(method, path, status string) error {
	path, _, _ = strings.Cut(path, "?")
	return fmt.Errorf("%s %s: %s: not a server of cysim with that route", method, s.base()+"/_sim/"+path, status)
}
