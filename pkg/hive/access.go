package hive

import (
	"context"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/progress"
)

// Access is what it takes to call the cluster's API. It is read from node 1 over SSH, never from what `hive admin init`
// prints: early versions print a key that does not work.
type Access struct {
	Profile         string // of ~/.aws/credentials on node 1: hive or spinifex
	AccessKeyID     string
	SecretAccessKey string
	Region          string
	CA              []byte // PEM; everything that the cluster serves over TLS is verified with it
	NATSToken       string // that clients of its NATS show; empty: it asks for none
}

// String hides the secrets, also from %v and %+v.
func (a Access) String() string { return "access by profile " + a.Profile }

// GoString hides the secrets from %#v.
func (a Access) GoString() string { return a.String() }

// NATSPort is where the NATS of each node answers clients.
const NATSPort = 4222

const defaultRegion = "ap-southeast-2"

// Credentials returns the admin's access to the cluster's API, which exists once hive was initialized. It is read once
// and kept until the cluster is formed anew.
func (c *Cluster) Credentials(ctx context.Context) (Access, error) {
	c.mu.Lock()
	known := c.access
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	access, err := c.readAccess(ctx)
	if err != nil {
		return access, err
	}
	if err := access.complete(); err != nil {
		return access, progress.WithNodes(fmt.Errorf("%s: %w", c.leader().Name(), err), c.leader().Name())
	}
	c.options.Secrets.Learn(access.AccessKeyID, access.SecretAccessKey, access.NATSToken)
	c.mu.Lock()
	c.access = &access
	c.mu.Unlock()
	return access, nil
}

// forget drops what was read from the nodes, which a new formation changes.
func (c *Cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access = nil
	clear(c.indirect)
}

func (a Access) complete() error {
	switch {
	case a.AccessKeyID == "" || a.SecretAccessKey == "":
		return errors.New("~/.aws/credentials has no profile hive or spinifex with a key: hive is not initialized")
	case !x509.NewCertPool().AppendCertsFromPEM(a.CA):
		return errors.New("hive's ca.pem is missing or holds no certificate: hive is not initialized")
	}
	return nil
}

// readAccess reads what node 1 has now, complete or not.
func (c *Cluster) readAccess(ctx context.Context) (Access, error) {
	result, err := c.script(ctx, c.leader(), "access.sh", shortTimeout, nil, nil)
	if err != nil {
		return Access{}, fmt.Errorf("read the cluster's credentials: %w", err)
	}
	return parseAccess(string(result.Stdout)), nil
}

func parseAccess(text string) Access {
	files := map[string]string{}
	name := ""
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(line, "==> "); ok {
			name = strings.TrimSpace(title)
			continue
		}
		files[name] += line
	}
	access := Access{
		Region: defaultRegion, CA: []byte(files["ca.pem"]), NATSToken: strings.TrimSpace(files["nats-token"]),
	}
	credentials, config := awsauth.ParseProfiles(files["credentials"]), awsauth.ParseProfiles(files["config"])
	for _, profile := range []string{"hive", "spinifex"} { // the later one counts where an old one was left
		if section, ok := credentials[profile]; ok {
			access.Profile = profile
			access.AccessKeyID, access.SecretAccessKey = section["aws_access_key_id"], section["aws_secret_access_key"]
			if region := config["profile "+profile]["region"]; region != "" {
				access.Region = region
			}
		}
	}
	return access
}

// call makes a signed EC2 call to the gateway at address (host:port).
func (a Access) call(ctx context.Context, probe *prober, address, action string) (answer, error) {
	body := url.Values{"Action": {action}, "Version": {"2016-11-15"}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	key := awsauth.Key{AccessKey: a.AccessKeyID, SecretKey: a.SecretAccessKey, Region: a.Region}
	if err := key.Sign(request, []byte(body), "ec2", time.Now()); err != nil {
		return answer{}, fmt.Errorf("sign the call: %w", err)
	}
	return probe.do(request)
}

// refusal is an answer of the gateway that is none.
type refusal struct {
	code  int
	error string
}

func (r refusal) Error() string {
	return strings.TrimRight(fmt.Sprintf("DescribeInstanceTypes answers %d %s", r.code, r.error), " ")
}

// instanceTypes counts the instance types that a gateway offers: those for which the cluster has room, so none of a
// cluster that is full, or whose nodes have few CPUs.
func (a Access) instanceTypes(ctx context.Context, probe *prober, address string) (int, error) {
	answer, err := a.call(ctx, probe, address, "DescribeInstanceTypes")
	if err != nil {
		return 0, fmt.Errorf("DescribeInstanceTypes: %w", err)
	}
	if answer.code != http.StatusOK {
		return 0, refusal{answer.code, errorCode(answer.body)}
	}
	var types struct {
		Items []struct {
			Name string `xml:"instanceType"`
		} `xml:"instanceTypeSet>item"`
	}
	if err := xml.Unmarshal(answer.body, &types); err != nil {
		return 0, fmt.Errorf("DescribeInstanceTypes answers something that is not XML: %w", err)
	}
	return len(types.Items), nil
}

// errorCode is the code in an error answer, which is a Response or an ErrorResponse, depending on hive's age and
// service.
func errorCode(body []byte) string {
	var response struct {
		Direct string `xml:"Error>Code"`
		Listed string `xml:"Errors>Error>Code"`
	}
	if err := xml.Unmarshal(body, &response); err != nil {
		return ""
	}
	return response.Direct + response.Listed
}
