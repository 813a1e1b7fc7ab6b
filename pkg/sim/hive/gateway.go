package simhive

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

// gateway is the AWS-like API on port 9999: signed EC2 queries, of which it knows three.
type gateway struct {
	daemon *daemon
	keys   map[string]credentials
}

// apiError is a refusal: hive sends its code with an empty message.
type apiError struct {
	status int
	code   string
}

func (e *apiError) Error() string { return e.code }

// ServeHTTP answers one call.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := g.daemon.faults().GatewayStatus; status != 0 {
		writeError(w, &apiError{status, "InternalError"})
		return
	}
	answer, err := g.call(r)
	if err != nil {
		writeError(w, err)
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
	service, refusal := verify(r, body, g.keys, time.Now())
	if refusal != nil {
		return nil, refusal
	}
	if service != "ec2" {
		return nil, &apiError{http.StatusBadRequest, "UnsupportedOperation"}
	}
	form, err := url.ParseQuery(string(bytes.TrimSpace(body)))
	if err != nil {
		return nil, &apiError{http.StatusBadRequest, "MalformedQueryString"}
	}
	action := form.Get("Action")
	if action == "" {
		action = r.URL.Query().Get("Action")
	}
	return g.ec2(action)
}

func (g *gateway) ec2(action string) (any, *apiError) {
	switch action {
	case "":
		return nil, &apiError{http.StatusBadRequest, "MissingAction"}
	case "DescribeRegions":
		return describeRegions{Regions: []regionItem{{
			Name: g.daemon.config.self().Region, Endpoint: "https://localhost:9999", OptIn: "opt-in-not-required",
		}}}, nil
	case "DescribeInstanceTypes":
		return describeInstanceTypes{Types: instanceTypes()}, nil
	case "DescribeInstances":
		return describeInstances{}, nil
	default:
		return nil, &apiError{http.StatusBadRequest, "InvalidAction"}
	}
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
}

type describeInstances struct {
	XMLName xml.Name `xml:"DescribeInstancesResponse"`
}

func instanceTypes() []instanceTypeItem {
	item := func(name string, cpus, memory int) instanceTypeItem {
		return instanceTypeItem{name, true, cpus, memory, []string{"x86_64"}}
	}
	return []instanceTypeItem{
		item("t3.nano", 2, 512), item("t3.micro", 2, 1024), item("t3.small", 2, 2048), item("t3.medium", 2, 4096),
	}
}

type errorResponse struct {
	XMLName   xml.Name    `xml:"Response"`
	Errors    []errorItem `xml:"Errors>Error"`
	RequestID string      `xml:"RequestID"`
}

type errorItem struct {
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

func writeError(w http.ResponseWriter, refusal *apiError) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(refusal.status)
	io.WriteString(w, xml.Header)
	xml.NewEncoder(w).Encode(errorResponse{Errors: []errorItem{{Code: refusal.code}}, RequestID: uuid.NewString()})
}
