package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
)

// answers asks over one connection. It spends as little as it can, for what is measured is the other side.
type answers struct {
	conn   net.Conn
	reader *bufio.Reader
}

func newAnswers(conn net.Conn) *answers { return &answers{conn, bufio.NewReader(conn)} }

// ask sends a request and returns the body of the answer, which must be a good one.
func (a *answers) ask(request []byte) ([]byte, error) {
	if _, err := a.conn.Write(request); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, err
}
