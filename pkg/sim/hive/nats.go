package simhive

import (
	"bufio"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How often NATS asks each peer in a small cluster, how fast it tries to reach one at first, and how long a call among
// servers may take.
const (
	routeInterval     = time.Second
	routeFastInterval = 50 * time.Millisecond // while a peer is missing and this NATS is young
	routeYoung        = 30 * time.Second
	serverTimeout     = 2 * time.Second
)

// natsVersion is what it calls itself.
const natsVersion = "2.12.0"

// natsServer is a node's NATS: clients of the own node, routes to the other nodes' NATS, and the records that all
// share. Safe for concurrent use.
type natsServer struct {
	natsOptions
	program *program
	id      string
	started time.Time
	tls     *tls.Config // nil: no TLS
	records *records

	mu      sync.Mutex
	clients map[*link][]string // with the topics that each answers
	routes  map[string]*route  // by address
}

// route is a connection to another node's NATS, as this one has made it.
type route struct {
	link *link
	name string
}

// runNATS is `service nats start`.
func (p *program) runNATS() error {
	p.say("Starting nats service...")
	if err := p.writePID(p.setting("data-dir"), "nats"); err != nil {
		return p.failStart("nats", err)
	}
	o := natsOptions{
		Listen: net.JoinHostPort(p.setting("host"), p.setting("port")), Name: "nats", Store: p.setting("data-dir"),
	}
	if file := p.setting("config"); file != "" {
		var err error
		if o, err = readNATSConf(file); err != nil {
			p.logf("ERROR Failed to process NATS config file err=%q", err)
			return p.failStart("nats", err)
		}
	}
	if o.Log != "" {
		if err := p.logInto(o.Log); err != nil {
			return p.failStart("nats", err)
		}
	}
	n, err := p.newNATS(o)
	if err != nil {
		return p.failStart("nats", err)
	}
	if err := n.serve(); err != nil {
		return exitError{code: 1, message: err.Error()}
	}
	p.logf("[INF] Server is ready")
	p.untilTerminated()
	n.shutdown()
	p.logf("[INF] Server Exiting..")
	return nil
}

func (p *program) newNATS(o natsOptions) (*natsServer, error) {
	n := &natsServer{
		natsOptions: o, program: p, id: "N" + randomText(20, upperAlnum), started: time.Now(),
		records: newRecords(o.Store),
		clients: map[*link][]string{}, routes: map[string]*route{},
	}
	if o.CertFile == "" {
		return n, nil
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("error parsing X509 certificate/key pair: %w", err)
	}
	ca, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	n.tls = &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, MinVersion: tls.VersionTLS12,
	}
	return n, nil
}

// serve opens all ports before anything is served, so that a taken one ends the start.
func (n *natsServer) serve() error {
	clients, err := net.Listen("tcp", n.Listen)
	if err != nil {
		return fmt.Errorf("[FTL] Error listening on port: %s, %w", n.Listen, err)
	}
	go accept(clients, n.welcomeClient)
	if n.ClusterAddr != "" {
		peers, err := net.Listen("tcp", n.ClusterAddr)
		if err != nil {
			return fmt.Errorf("[FTL] Error listening on router port: %s, %w", n.ClusterAddr, err)
		}
		go accept(peers, n.welcomeRoute)
	}
	if n.Monitor != "" {
		monitor, err := net.Listen("tcp", n.Monitor)
		if err != nil {
			return fmt.Errorf("[FTL] Error starting http monitor port: %w", err)
		}
		go http.Serve(monitor, n.monitorHandler()) // ends with the process
	}
	for _, address := range n.peers() {
		go n.follow(address)
	}
	return nil
}

// accept serves every connection until the process ends.
func accept(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(conn)
	}
}

// peers are the addresses of the other nodes' NATS.
func (n *natsServer) peers() []string {
	return slices.DeleteFunc(slices.Clone(n.Routes), func(address string) bool { return address == n.ClusterAddr })
}

// shutdown drops clients and peers at once, as NATS does when it is told to end.
func (n *natsServer) shutdown() {
	n.mu.Lock()
	links := make([]*link, 0, len(n.clients)+len(n.routes))
	for l := range n.clients {
		links = append(links, l)
	}
	for _, r := range n.routes {
		links = append(links, r.link)
	}
	n.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// welcomeClient takes a client, over TLS if this era has it: NATS introduces itself before that.
func (n *natsServer) welcomeClient(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	text, _ := json.Marshal(welcome{
		ServerID: n.id, ServerName: n.Name, Version: natsVersion, TLSRequired: n.tls != nil, MaxPayload: 1 << 20,
		ConnectURLs: n.otherClients(),
	})
	if _, err := fmt.Fprintf(conn, "INFO %s\r\n", text); err != nil {
		conn.Close()
		return
	}
	if n.tls != nil {
		conn = tls.Server(conn, n.tls)
	}
	reader := bufio.NewReader(conn)
	h, err := readHello(reader)
	if err == nil && subtle.ConstantTimeCompare([]byte(h.Token), []byte(n.Token)) != 1 && n.Token != "" {
		err = refusal("Authorization Violation")
	}
	if !greeted(conn, err) {
		return
	}
	var l *link
	n.mu.Lock() // a call of the client's must not come before it is known
	l = newLink(conn, reader, func(ctx context.Context, call string, body json.RawMessage) (any, error) {
		return n.answerClient(ctx, call, body)
	})
	n.clients[l] = h.Topics
	n.mu.Unlock()
	<-l.closed
	n.mu.Lock()
	delete(n.clients, l)
	n.mu.Unlock()
}

// welcomeRoute takes another node's NATS: in the later era only with a certificate of the cluster's CA and its token.
func (n *natsServer) welcomeRoute(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if n.tls != nil {
		secure := n.tls.Clone()
		secure.ClientAuth = tls.RequireAndVerifyClientCert
		conn = tls.Server(conn, secure)
	}
	reader := bufio.NewReader(conn)
	h, err := readHello(reader)
	switch {
	case err != nil:
	case h.Cluster != n.Cluster || n.program.recentFaults().NoPeers:
		err = refusal("Cluster Name Conflict")
	case n.Token != "" && subtle.ConstantTimeCompare([]byte(h.Token), []byte(n.Token)) != 1:
		err = refusal("Authorization Violation")
	}
	if greeted(conn, err) {
		l := newLink(conn, reader, n.answerRoute)
		<-l.closed
	}
}

// refusal is what NATS says to one that it does not take.
type refusal string

func (r refusal) Error() string { return string(r) }

func readHello(reader *bufio.Reader) (hello, error) {
	var h hello
	line, err := reader.ReadString('\n')
	if err != nil {
		return h, err
	}
	text, ok := strings.CutPrefix(line, "CONNECT ")
	if !ok {
		return h, refusal("Unknown Protocol Operation")
	}
	return h, json.Unmarshal([]byte(text), &h)
}

// greeted tells the other end whether it is taken, and closes the connection if it is not.
func greeted(conn net.Conn, refusal error) bool {
	answer := "+OK"
	if refusal != nil {
		answer = "-ERR '" + refusal.Error() + "'"
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", answer); err != nil || refusal != nil {
		conn.Close()
		return false
	}
	conn.SetDeadline(time.Time{})
	return true
}

// follow keeps a route to another node's NATS for as long as the process lives.
func (n *natsServer) follow(address string) {
	for {
		if !n.program.recentFaults().NoPeers {
			if r, err := n.dialRoute(address); err == nil {
				n.hold(address, r)
			}
		}
		if time.Since(n.started) < routeYoung {
			time.Sleep(routeFastInterval)
		} else {
			time.Sleep(routeInterval)
		}
	}
}

// hold keeps a route until its connection ends, which is noticed at once, or until the other end has been silent for
// too long, which is noticed late.
func (n *natsServer) hold(address string, r *route) {
	n.mu.Lock()
	n.routes[address] = r
	n.mu.Unlock()
	defer func() {
		r.link.close()
		n.mu.Lock()
		delete(n.routes, address)
		n.mu.Unlock()
		n.program.logf("[INF] Router connection closed: %s", r.name)
	}()
	n.program.logf("[INF] Route connection created: %s", r.name)
	// In a large cluster every NATS asks each of the others less often, or they would do nothing else.
	interval := routeInterval * time.Duration(max(1, len(n.Routes)/8))
	for heard := time.Now(); ; {
		select {
		case <-r.link.closed:
			return
		case <-time.After(interval):
		}
		faults := n.program.recentFaults()
		limit := max(seconds(faults.StaleRoutes), interval)
		ctx, cancel := context.WithTimeout(context.Background(), min(limit, serverTimeout))
		err := r.link.call(ctx, "ping", nil, nil)
		cancel()
		if err == nil {
			heard = time.Now()
		}
		if faults.NoPeers || time.Since(heard) > limit {
			return
		}
	}
}

func (n *natsServer) dialRoute(address string) (*route, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	host, _, _ := net.SplitHostPort(n.ClusterAddr)
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		dialer.LocalAddr = &net.TCPAddr{IP: ip}
	}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if n.tls != nil {
		secure := n.tls.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(address)
		conn = tls.Client(conn, secure)
	}
	reader := bufio.NewReader(conn)
	if err := sendHello(conn, reader, hello{Token: n.Token, Name: n.Name, Cluster: n.Cluster}); err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	r := &route{link: newLink(conn, reader, n.answerRoute)}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	var known introduced
	if err := r.link.call(ctx, "introduce", nil, &known); err != nil {
		r.link.close()
		return nil, err
	}
	r.name = known.Name
	n.records.merge(known.Records)
	return r, nil
}

// introduced is what one NATS tells another about itself: its name and the records it has.
type introduced struct {
	Name    string            `json:"name"`
	Records map[string]record `json:"records"`
}

// connected are the routes that there are, in the order of the names.
func (n *natsServer) connected() []*route {
	n.mu.Lock()
	defer n.mu.Unlock()
	routes := make([]*route, 0, len(n.routes))
	for _, r := range n.routes {
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b *route) int { return strings.Compare(a.name, b.name) })
	return routes
}

// otherClients are where the other nodes' NATS take clients.
func (n *natsServer) otherClients() []string {
	var urls []string
	for _, address := range n.peers() {
		host, _, _ := net.SplitHostPort(address)
		urls = append(urls, net.JoinHostPort(host, strconv.Itoa(natsPort)))
	}
	return urls
}

// quorum tells whether most of the cluster's NATS are connected, without which there are no records.
func (n *natsServer) quorum() bool { return len(n.connected())+1 > len(n.Routes)/2 }

type routez struct {
	ServerID   string       `json:"server_id"`
	ServerName string       `json:"server_name"`
	Now        string       `json:"now"`
	NumRoutes  int          `json:"num_routes"`
	Routes     []routeEntry `json:"routes"`
}

type routeEntry struct {
	RID          int    `json:"rid"`
	RemoteID     string `json:"remote_id"`
	RemoteName   string `json:"remote_name"`
	DidSolicit   bool   `json:"did_solicit"`
	IsConfigured bool   `json:"is_configured"`
	IP           string `json:"ip"`
	Port         int    `json:"port"`
}

// routesPerPeer is how many connections a route to one peer has: a pool of three and one for the system account, which
// is why num_routes is 8 in a cluster of three.
const routesPerPeer = 4

func (n *natsServer) monitorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(
		"GET /routez", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, n.routez()) },
	)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /varz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"server_id": n.id, "server_name": n.Name, "version": natsVersion})
	})
	mux.HandleFunc("GET /jsz", func(w http.ResponseWriter, _ *http.Request) {
		meta := map[string]string{"name": n.Cluster, "leader": n.leaderName()}
		writeJSON(w, http.StatusOK, map[string]any{"server_id": n.id, "meta_cluster": meta})
	})
	return mux
}

func (n *natsServer) routez() routez {
	answer := routez{
		ServerID: n.id, ServerName: n.Name, Now: time.Now().UTC().Format(time.RFC3339Nano), Routes: []routeEntry{},
	}
	for _, r := range n.connected() {
		host, _, _ := net.SplitHostPort(r.link.conn.RemoteAddr().String())
		for range routesPerPeer {
			answer.Routes = append(answer.Routes, routeEntry{
				RID: len(answer.Routes) + 1, RemoteID: "N" + r.name, RemoteName: r.name, DidSolicit: true,
				IsConfigured: true,
				IP:           host, Port: clusterPort,
			})
		}
	}
	answer.NumRoutes = len(answer.Routes)
	return answer
}
