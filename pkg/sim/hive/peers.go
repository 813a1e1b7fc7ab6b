package simhive

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// How often a daemon asks its peers, and how long it waits for an answer.
const (
	peerInterval     = time.Second
	peerFastInterval = 50 * time.Millisecond // while a peer is missing and this node is young
	peerYoung        = 30 * time.Second
	peerTimeout      = time.Second
)

// routesPerPeer is how many connections a route to one peer has: a pool of three and one for the system account, which
// is why num_routes is 8 in a cluster of three.
const routesPerPeer = 4

// peers are the other daemons of the cluster, each asked over the network. Safe for concurrent use.
type peers struct {
	daemon *daemon
	client *http.Client
	quorum atomic.Bool // was reached once

	mu        sync.Mutex
	connected map[string]bool
}

// peerAnswer is what one daemon tells another.
type peerAnswer struct {
	Node     string   `json:"node"`
	Status   string   `json:"status"`
	Uptime   int64    `json:"uptime"`
	Services []string `json:"services"`
}

func newPeers(d *daemon) *peers {
	return &peers{daemon: d, client: peerClient(d.config.self().ClusterIP, peerTimeout), connected: map[string]bool{}}
}

func peerClient(source string, timeout time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: timeout}
	if ip := net.ParseIP(source); ip != nil && !ip.IsUnspecified() {
		dialer.LocalAddr = &net.TCPAddr{IP: ip}
	}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: dialer.DialContext}}
}

// watch asks every peer for as long as the process lives.
func (p *peers) watch() {
	p.judgeQuorum()
	for name, m := range p.daemon.config.Nodes {
		if name != p.daemon.config.Node {
			go p.follow(name, m)
		}
	}
}

func (p *peers) follow(name string, m member) {
	for {
		_, err := askPeer(context.Background(), p.client, p.daemon.config, m)
		p.set(name, err == nil && !p.daemon.faults().NoPeers)
		if err != nil && time.Since(p.daemon.started) < peerYoung {
			time.Sleep(peerFastInterval)
			continue
		}
		time.Sleep(peerInterval)
	}
}

func (p *peers) set(name string, up bool) {
	p.mu.Lock()
	p.connected[name] = up
	p.mu.Unlock()
	p.judgeQuorum()
}

func (p *peers) judgeQuorum() {
	if len(p.up())+1 > len(p.daemon.config.Nodes)/2 {
		p.quorum.Store(true)
	}
}

func (p *peers) hadQuorum() bool { return p.quorum.Load() }

// up are the names of the peers that answered last time, in the cluster's order.
func (p *peers) up() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, name := range p.daemon.config.names() {
		if p.connected[name] {
			names = append(names, name)
		}
	}
	return names
}

// askPeer asks one daemon about itself. A daemon of another cluster, or of an earlier formation of this one, refuses.
func askPeer(ctx context.Context, client *http.Client, config nodeConfig, m member) (peerAnswer, error) {
	var answer peerAnswer
	url := "http://" + net.JoinHostPort(m.ClusterIP, strconv.Itoa(clusterPort)) + "/peer"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer, err
	}
	request.Header.Set("Authorization", "Bearer "+config.NATS.Token)
	response, err := client.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return answer, err
	}
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("peer %s answers %s", m.Name, response.Status)
	}
	return answer, json.Unmarshal(body, &answer)
}

func (p *peers) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /peer", func(w http.ResponseWriter, r *http.Request) {
		expected := "Bearer " + p.daemon.config.NATS.Token
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(expected)) != 1 {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "authorization violation"})
			return
		}
		if p.daemon.faults().NoPeers {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "no peers"})
			return
		}
		writeJSON(w, http.StatusOK, peerAnswer{
			Node: p.daemon.config.Node, Status: p.daemon.status(),
			Uptime: int64(time.Since(p.daemon.started).Seconds()), Services: p.daemon.config.self().Services,
		})
	})
	return mux
}

type routez struct {
	ServerID   string  `json:"server_id"`
	ServerName string  `json:"server_name"`
	Now        string  `json:"now"`
	NumRoutes  int     `json:"num_routes"`
	Routes     []route `json:"routes"`
}

type route struct {
	RID          int    `json:"rid"`
	RemoteID     string `json:"remote_id"`
	RemoteName   string `json:"remote_name"`
	DidSolicit   bool   `json:"did_solicit"`
	IsConfigured bool   `json:"is_configured"`
	IP           string `json:"ip"`
	Port         int    `json:"port"`
}

func (p *peers) monitorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /routez", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, p.routez()) })
	return mux
}

func (p *peers) routez() routez {
	answer := routez{
		ServerID: "N" + p.daemon.hash[:20], ServerName: p.daemon.config.Node,
		Now: time.Now().UTC().Format(time.RFC3339Nano), Routes: []route{},
	}
	for _, name := range p.up() {
		for range routesPerPeer {
			answer.Routes = append(answer.Routes, route{
				RID: len(answer.Routes) + 1, RemoteID: "N" + name, RemoteName: name, DidSolicit: true, IsConfigured: true,
				IP: p.daemon.config.Nodes[name].ClusterIP, Port: clusterPort,
			})
		}
	}
	answer.NumRoutes = len(answer.Routes)
	return answer
}
