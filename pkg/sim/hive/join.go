package simhive

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// adminJoin makes this node a further one of a cluster that is being formed, whatever it was before.
func (p *program) adminJoin(o options) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := p.injected("join"); err != nil {
		return err
	}
	leader, _, err := net.SplitHostPort(o.Host)
	if err != nil || !p.settings.spx() {
		leader = "127.0.0.1" // the early era looks for OVN's databases on every node itself
	}
	j := p.newJoiner(o)
	if err := j.register(); err != nil {
		return err
	}
	p.say("Registered as %s, waiting for the other nodes...", o.Node)
	b, err := j.await()
	if err != nil {
		return err
	}
	if err := p.writeNode(installed{options: o, bundle: b, ovn: leader}); err != nil {
		return err
	}
	p.say("Node successfully joined cluster!")
	return nil
}

// joiner talks to the formation server.
type joiner struct {
	options
	base   string
	client *http.Client
	poll   time.Duration
}

func (p *program) newJoiner(o options) *joiner {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if o.Bind != "0.0.0.0" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(o.Bind)}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	j := &joiner{
		options: o, base: "http://" + o.Host,
		client: &http.Client{Transport: transport, Timeout: 30 * time.Second},
		poll:   p.settings.scaled(realPoll),
	}
	if p.settings.spx() {
		// A joiner has nothing to verify the CA with yet: the token is what it trusts, as in the real program.
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
		j.base = "https://" + o.Host
	}
	return j
}

// register announces this node, once: what cannot be reached is not tried again.
func (j *joiner) register() error {
	body, err := json.Marshal(j.member())
	if err != nil {
		return fmt.Errorf("encode the join request: %w", err)
	}
	status, answer, err := j.call(http.MethodPost, "/formation/join", body)
	if err != nil {
		return fmt.Errorf("❌ Error connecting to formation server: %w", err)
	}
	return judgeJoin(status, answer)
}

func judgeJoin(status int, answer []byte) error {
	var response joinResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		return fmt.Errorf("Error parsing join response: %w", err)
	}
	if status != http.StatusOK || !response.Success {
		return fmt.Errorf("❌ Failed to join cluster: %s", response.Message)
	}
	return nil
}

// await polls until formation is complete, without a limit of its own. A question that gets no answer ends it.
func (j *joiner) await() (bundle, error) {
	for {
		status, answer, err := j.call(http.MethodGet, "/formation/status", nil)
		if err != nil {
			return bundle{}, fmt.Errorf("❌ Error polling formation status: %w", err)
		}
		if status == http.StatusUnauthorized {
			return bundle{}, errors.New("❌ Error: join token rejected by formation server (expired or invalid)")
		}
		response := statusResponse{bundle: &bundle{}}
		if err := json.Unmarshal(answer, &response); err != nil {
			return bundle{}, fmt.Errorf("Error parsing status response: %w", err)
		}
		if response.Complete {
			return *response.bundle, nil
		}
		time.Sleep(j.poll)
	}
}

func (j *joiner) call(method, path string, body []byte) (int, []byte, error) {
	request, err := http.NewRequest(method, j.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if j.Token != "" {
		request.Header.Set("Authorization", "Bearer "+j.Token)
	}
	response, err := j.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, answer, err
}
