package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// answers asks over one connection, as long as the other side keeps it open. It spends as little as it can, for what is
// measured is the other side.
type answers struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

func (a *answers) close() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}

// ask sends a request and returns the body of the answer, which must be a good one.
func (a *answers) ask(request []byte) ([]byte, error) {
	if a.conn == nil {
		conn, err := net.Dial("tcp", a.address)
		if err != nil {
			return nil, err
		}
		a.conn, a.reader = conn, bufio.NewReader(conn)
	}
	if err := a.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := a.conn.Write(request); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.Close {
		a.close()
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, err
}
