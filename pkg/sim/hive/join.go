package simhive

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// adminJoin makes this node a further one of a cluster that is being formed.
func (p *program) adminJoin(args []string) error {
	var o options
	flags := p.joinFlags(&o)
	if err := p.parse(flags, args); err != nil {
		return err
	}
	required := []string{"node", "host"}
	if p.settings.spx() {
		required = append(required, "token")
	}
	if err := require(flags, required...); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := p.injected("join"); err != nil {
		return err
	}
	if p.settings.spx() && !o.Force && exists(o.config("hive.toml")) {
		return fmt.Errorf("Error: this node is already initialized in %s (use --force to join again)", o.ConfigDir)
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
	if err := p.writeNode(o.layout, o.Node, b); err != nil {
		return err
	}
	p.say("Node successfully joined cluster!")
	return nil
}

// joiner talks to the formation server.
type joiner struct {
	options
	base     string
	client   *http.Client
	poll     time.Duration
	retry    time.Duration // 0: one attempt only
	deadline time.Time     // zero: none, as in the early era
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
		poll:   p.settings.scaled(realPollPre),
	}
	if p.settings.spx() {
		// A joiner has nothing to verify the CA with yet: the token is what it trusts, as in the real program.
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
		j.base = "https://" + o.Host
		j.poll = p.settings.scaled(realPollSpx)
		j.retry = p.settings.scaled(realJoinRetry)
		j.deadline = time.Now().Add(o.JoinTimeout)
	}
	return j
}

func (j *joiner) expired() bool { return !j.deadline.IsZero() && time.Now().After(j.deadline) }

// register announces this node. Only the later era tries again when the server cannot be reached.
func (j *joiner) register() error {
	body, err := json.Marshal(j.member())
	if err != nil {
		return fmt.Errorf("encode the join request: %w", err)
	}
	for {
		status, answer, err := j.call(http.MethodPost, "/formation/join", body)
		if j.retry > 0 && (err != nil || status >= 500) && !j.expired() {
			time.Sleep(j.retry)
			continue
		}
		if err != nil {
			return fmt.Errorf("Error: Failed to join cluster: %w", err)
		}
		return judgeJoin(status, answer)
	}
}

func judgeJoin(status int, answer []byte) error {
	var response joinResponse
	if err := json.Unmarshal(answer, &response); err != nil {
		return fmt.Errorf("Error parsing join response: %w", err)
	}
	if status != http.StatusOK || !response.Success {
		return fmt.Errorf("Error: Failed to join cluster: %s", response.Message)
	}
	return nil
}

// await polls until formation is complete. The early era has no limit of its own here.
func (j *joiner) await() (bundle, error) {
	for {
		status, answer, err := j.call(http.MethodGet, "/formation/status", nil)
		if err == nil && status == http.StatusOK {
			response := statusResponse{bundle: &bundle{}}
			if err := json.Unmarshal(answer, &response); err != nil {
				return bundle{}, fmt.Errorf("Error parsing formation status: %w", err)
			}
			if response.Complete {
				return *response.bundle, nil
			}
		}
		if j.expired() {
			return bundle{}, fmt.Errorf("Error: Failed to join cluster: not complete within %s", j.JoinTimeout)
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
