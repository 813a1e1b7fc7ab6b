package stateserver

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// certificateFiles are a certificate and its key in files, which are read again when they have changed: certificates are
// renewed every few weeks. Safe for concurrent use.
type certificateFiles struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	at     time.Time // when the file of the certificate had changed
}

// load returns the certificate. One that cannot be read leaves the one before.
func (c *certificateFiles) load() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.cert)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.at) {
		return c.loaded, nil
	}
	pair, read := tls.LoadX509KeyPair(c.cert, c.key)
	if read != nil || err != nil {
		if c.loaded != nil {
			return c.loaded, nil
		}
		return nil, read
	}
	c.loaded, c.at = &pair, info.ModTime()
	return c.loaded, nil
}
