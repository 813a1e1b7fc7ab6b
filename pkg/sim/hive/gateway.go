package simhive

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// gateway is the AWS-like API on port 9999: signed EC2 queries. Safe for concurrent use.
type gateway struct {
	program   *program
	config    nodeConfig
	bus       *bus
	masterKey []byte
	state     ec2State

	mu    sync.Mutex
	heard map[string]bool // nodes whose daemon has answered once
}

// runGateway is `service awsgw start`.
func (p *program) runGateway() error {
	return p.withConfig("awsgw", func(config nodeConfig, _ []byte) error {
		base := p.setting("base-dir")
		err := p.writePID(base, "awsgw")
		g := &gateway{program: p, config: config, heard: map[string]bool{}}
		g.state.actions = ec2Actions(p.settings.Era)
		if err == nil {
			err = g.prepare(context.Background(), base)
		}
		if err != nil {
			return p.failStart("awsgw", err)
		}
		return g.listen()
	})
}

// listen serves the API until the gateway is told to end.
func (g *gateway) listen() error {
	p, self := g.program, g.config.self()
	cert, key := p.setting("tls-cert"), p.setting("tls-key")
	if cert == "" {
		cert = self.AWSGW.TLSCert
	}
	if key == "" {
		key = self.AWSGW.TLSKey
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return p.failStart("awsgw", fmt.Errorf("load TLS cert: %w", err))
	}
	p.logf("INFO AWS Gateway listening addr=%s", self.AWSGW.Host)
	listener, err := listenTLS(self.AWSGW.Host, cert, key)
	if err != nil {
		p.logf("ERROR Failed to start TLS listener err=%q", err)
		return exitError{code: 1}
	}
	go serveHTTP(listener, g, p.logf)
	p.untilTerminated()
	time.Sleep(pause)
	return nil
}

// prepare does in order what the real gateway does before it listens.
func (g *gateway) prepare(ctx context.Context, base string) error {
	o, err := g.program.busOf(g.config.self(), "awsgw", nil, nil)
	if err != nil {
		return err
	}
	if g.bus, err = g.program.connectBus(ctx, o); err != nil {
		return err
	}
	file := filepath.Join(base, "config", "master.key")
	if g.masterKey, err = os.ReadFile(file); err != nil {
		return fmt.Errorf("load IAM master key from %s: read master key: %w", file, err)
	}
	g.awaitQuorum(ctx)
	return g.seed(ctx, base)
}

// awaitQuorum waits until the cluster has records at all.
func (g *gateway) awaitQuorum(ctx context.Context) {
	for wait := 20 * time.Millisecond; !g.bus.quorum(ctx); wait = min(2*wait, time.Second) {
		g.program.logf("WARN IAM service not ready (waiting for JetStream cluster quorum)")
		time.Sleep(wait)
	}
}

// bootstrapFile is where the gateway of this era finds what is to be put into the records, the first of them that is
// there.
func (p *program) bootstrapFile(base string) string {
	files := []string{filepath.Join(base, "config", "bootstrap.json")}
	if p.settings.spx() {
		files = []string{
			filepath.Join(base, "bootstrap.json"), filepath.Join(base, "awsgw", "bootstrap.json"), files[0],
		}
	}
	for _, file := range files {
		if exists(file) {
			return file
		}
	}
	return files[0]
}

// seed fills the cluster's records from bootstrap.json, which is gone afterwards. Gateways that do so at the same time
// get in each other's way: all but the first die, and find the records filled when they are started again.
func (g *gateway) seed(ctx context.Context, base string) error {
	file := g.program.bootstrapFile(base)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var b bootstrap
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return fmt.Errorf("load bootstrap from %s: %w", file, err)
	}
	g.program.logf("INFO Bootstrap file found, seeding IAM users")
	settings := g.program.settings
	s := seeding{Node: g.config.Node, Window: seconds(settings.SeedWindow), Race: settings.SeedRace}
	if err := g.bus.call(ctx, "seed-begin", s, nil); err != nil {
		return fmt.Errorf("seed bootstrap from bootstrap.json: seed admin account: seed account counter: %w", err)
	}
	var filled json.RawMessage
	if g.bus.call(ctx, "get", keyed{Key: counterKey}, &filled) != nil {
		time.Sleep(s.Window)
	}
	if s.Values, err = b.records(); err == nil {
		err = g.bus.call(ctx, "seed-end", s, nil)
	}
	if err != nil {
		return fmt.Errorf("seed bootstrap from bootstrap.json: seed admin account: %w", err)
	}
	if err := os.Remove(file); err == nil {
		g.program.logf("INFO Bootstrap complete, bootstrap.json deleted")
	}
	return nil
}

// keyRecord is an access key among the records.
type keyRecord struct {
	Secret  string `json:"encrypted_secret"`
	Account string `json:"account_id"`
}

func keyName(accessKey string) string { return "iam-access-keys." + accessKey }

func (b bootstrap) records() (map[string]json.RawMessage, error) {
	own, errOwn := json.Marshal(keyRecord{Secret: b.EncryptedSecret, Account: b.AccountID})
	adm, errAdmin := json.Marshal(keyRecord{Secret: b.Admin.EncryptedSecret, Account: b.Admin.AccountID})
	return map[string]json.RawMessage{
		counterKey: json.RawMessage("2"), keyName(b.AccessKeyID): own, keyName(b.Admin.AccessKeyID): adm,
	}, errors.Join(errOwn, errAdmin)
}

// errUnknownKey means that no user has that access key.
var errUnknownKey = errors.New("unknown access key")

// secretOf reads an access key's secret from the records, which all gateways share.
func (g *gateway) secretOf(accessKey string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return secretFrom(ctx, g.bus.call, g.masterKey, accessKey)
}

// secretFrom reads an access key's secret with a call to NATS.
func secretFrom(
	ctx context.Context, call func(ctx context.Context, name string, in, out any) error, masterKey []byte, accessKey string,
) (string, error) {
	var kept keyRecord
	if err := call(ctx, "get", keyed{Key: keyName(accessKey)}, &kept); err != nil {
		if err.Error() == errKeyNotFound.Error() {
			return "", errUnknownKey
		}
		return "", err
	}
	return unseal(masterKey, kept.Secret)
}

// types are those that fit into what is free of a node.
func (g *gateway) types() []instanceTypeItem {
	var found []instanceTypeItem
	for _, node := range g.nodeTypes() {
		for _, t := range node.Types {
			if !slices.ContainsFunc(found, func(other instanceTypeItem) bool { return other.Name == t.Name }) {
				found = append(found, t)
			}
		}
	}
	return found
}

// nodeTypes asks all daemons for what fits into their nodes. One that was heard before and is silent is waited for, even
// if its process is known to be gone: the gateway counts answers and nothing else.
func (g *gateway) nodeTypes() []nodeTypes {
	wait := seconds(g.program.faults().GatewayWait)
	began := time.Now()
	var found []nodeTypes
	answered := map[string]bool{}
	for _, text := range g.bus.gather(context.Background(), typesTopic, wait) {
		var one nodeTypes
		if json.Unmarshal(text, &one) != nil {
			continue
		}
		answered[one.Node] = true
		found = append(found, one)
	}
	if !g.allHeard(answered) {
		time.Sleep(time.Until(began.Add(wait)))
	}
	return found
}

// allHeard remembers who has answered and tells whether all that ever did have done so now.
func (g *gateway) allHeard(answered map[string]bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for node := range answered {
		g.heard[node] = true
	}
	return len(g.heard) == len(answered)
}

// apiError is a refusal: hive sends its code with an empty message.
type apiError struct {
	status int
	code   string
}

// ServeHTTP answers one call.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := g.program.faults().GatewayStatus; status != 0 {
		g.writeError(w, &apiError{status, "InternalError"})
		return
	}
	answer, err := g.call(r)
	if err != nil {
		g.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	xml.NewEncoder(w).Encode(answer) // the client is gone if this fails
}

func (g *gateway) call(r *http.Request) (any, *apiError) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, &apiError{http.StatusBadRequest, "MalformedQueryString"}
	}
	signed, refusal := verify(r, body, g.secretOf, time.Now())
	if refusal != nil {
		return nil, refusal
	}
	if signed.service != "ec2" {
		return nil, &apiError{http.StatusBadRequest, "UnsupportedOperation"}
	}
	form, err := url.ParseQuery(string(bytes.TrimSpace(body)))
	if err != nil {
		return nil, &apiError{http.StatusBadRequest, "MalformedQueryString"}
	}
	values := make(map[string]string, len(form))
	for name, value := range form {
		values[name] = value[len(value)-1]
	}
	account, err := g.accountOf(signed.accessKey)
	if err != nil {
		return nil, &apiError{http.StatusInternalServerError, "InternalError"}
	}
	return g.ec2(account, values)
}

// accountOf is the account that an access key belongs to.
func (g *gateway) accountOf(accessKey string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var kept keyRecord
	err := g.bus.call(ctx, "get", keyed{Key: keyName(accessKey)}, &kept)
	return kept.Account, err
}

// The answers have neither a namespace nor a request id, and leave empty lists out, as observed.
type describeRegions struct {
	XMLName xml.Name     `xml:"DescribeRegionsResponse"`
	Regions []regionItem `xml:"regionInfo>item"`
}

type regionItem struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	OptIn    string `xml:"optInStatus"`
}

type describeInstanceTypes struct {
	XMLName xml.Name           `xml:"DescribeInstanceTypesResponse"`
	Types   []instanceTypeItem `xml:"instanceTypeSet>item"`
}

type instanceTypeItem struct {
	Name              string   `xml:"instanceType"`
	CurrentGeneration bool     `xml:"currentGeneration"`
	VCPUs             int      `xml:"vCpuInfo>defaultVCpus"`
	MemoryMiB         int      `xml:"memoryInfo>sizeInMiB"`
	Architectures     []string `xml:"processorInfo>supportedArchitectures>item"`
	RootDevices       []string `xml:"supportedRootDeviceTypes>item"`
	Virtualizations   []string `xml:"supportedVirtualizationTypes>item"`
	Hypervisor        string   `xml:"hypervisor"`
	Placements        []string `xml:"placementGroupInfo>supportedStrategies>item"`
	Burstable         bool     `xml:"burstablePerformanceSupported"`
}

func instanceTypes() []instanceTypeItem {
	item := func(name string, cpus, memory int) instanceTypeItem {
		return instanceTypeItem{
			name, true, cpus, memory,
			[]string{"x86_64"},
			[]string{"ebs"},
			[]string{"hvm"},
			"kvm",
			[]string{"cluster", "spread"},
			true,
		}
	}
	return []instanceTypeItem{
		item("t3.nano", 2, 512), item("t3.micro", 2, 1024), item("t3.small", 2, 2048), item("t3.medium", 2, 4096),
		item("t3.xlarge", 4, 16384), item("t3.2xlarge", 8, 32768),
	}
}

type errorResponse struct {
	XMLName   xml.Name
	Errors    []errorItem `xml:"Errors>Error"`
	RequestID string      `xml:"RequestID"`
}

type errorItem struct {
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

// writeError writes a refusal, which has a root of its own in the later era (spinifex/gateway/gateway.go:66).
func (g *gateway) writeError(w http.ResponseWriter, refusal *apiError) {
	root := xml.Name{Local: "Response"}
	if g.program.settings.spx() {
		root = xml.Name{Space: "http://ec2.amazonaws.com/doc/2016-11-15/", Local: "ErrorResponse"}
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(refusal.status)
	io.WriteString(w, xml.Header)
	xml.NewEncoder(w).Encode(errorResponse{
		XMLName: root, Errors: []errorItem{{Code: refusal.code}}, RequestID: uuid.NewString(),
	})
}
