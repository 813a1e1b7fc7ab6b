package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/gateway/wire"
)

// Capabilities are what a cluster implements of the actions that are known here.
type Capabilities struct {
	Version string          `json:"version"` // of the hive that was asked
	Asked   time.Time       `json:"asked"`
	Root    string          `json:"root"`    // of its errors: Response, or another one that clients of SDK v1 do not read
	Actions map[string]bool `json:"actions"` // by name
}

// askAtOnce is how many actions are asked for at once.
const askAtOnce = 8

// Use has the client go by what is known of the cluster.
func (c *Client) Use(known Capabilities) { c.does.Store(&known) }

// Learn asks the cluster which actions it implements, and changes nothing there: what makes something is taken to be done
// where its opposite is, and all else is asked of what cannot be there.
func (c *Client) Learn(ctx context.Context, version string) (Capabilities, error) {
	known := Capabilities{Version: version, Asked: time.Now().UTC().Truncate(time.Second), Actions: map[string]bool{}}
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	slots := make(chan struct{}, askAtOnce)
	for _, action := range wire.Actions() {
		if inferred(action) != "" {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			does, root, err := c.ask(ctx, action)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", action, err))
			}
			known.Actions[action] = does
			if root != "" {
				known.Root = root
			}
		})
	}
	all.Wait()
	for _, action := range wire.Actions() {
		if opposite := inferred(action); opposite != "" {
			known.Actions[action] = known.Actions[opposite]
		}
	}
	return known, errors.Join(errs...)
}

// inferred is the action whose presence tells that of one which makes something; empty: it can be asked for.
func inferred(action string) string {
	switch action {
	case "AllocateAddress":
		return "ReleaseAddress"
	case "RunInstances":
		return "TerminateInstances"
	case "ImportKeyPair":
		return "DeleteKeyPair"
	case "CopySnapshot":
		return "DeleteSnapshot"
	case "CreateImage": // of an instance that is not there
		return ""
	case "DeleteTags": // which needs no resource to be there
		return "DescribeTags"
	case "CreateTags":
		return "DescribeTags"
	}
	if what, makes := strings.CutPrefix(action, "Create"); makes {
		return "Delete" + what
	}
	return ""
}

// ask asks for an action, and returns whether the cluster knows it, and the root of the error that it answers with.
func (c *Client) ask(ctx context.Context, action string) (does bool, root string, err error) {
	form, err := wire.EncodeQuery(action, ofNothing(action))
	if err != nil {
		return false, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := c.Pass(ctx, "ec2", form)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return false, "", err
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		return true, "", nil
	}
	failure, root, err := wire.DecodeError(answer.StatusCode, body)
	switch {
	case err != nil:
		return false, "", err
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return false, "", failure
	}
	return failure.Code != wire.InvalidAction, root, nil
}

// ofNothing is a request that names resources which cannot be there, with all that those checks may want to see before.
func ofNothing(action string) wire.Object {
	in := wire.Object{}
	if strings.HasPrefix(action, "Describe") && !strings.HasSuffix(action, "Attribute") {
		return in // of all
	}
	const nobody = "-00000000000000000"
	for name, prefix := range map[string]string{
		"VpcId": "vpc", "SubnetId": "subnet", "GroupId": "sg", "InternetGatewayId": "igw", "RouteTableId": "rtb",
		"EgressOnlyInternetGatewayId": "eigw", "VolumeId": "vol", "InstanceId": "i", "SnapshotId": "snap", "ImageId": "ami",
		"NetworkInterfaceId": "eni", "AttachmentId": "eni-attach", "AllocationId": "eipalloc", "AssociationId": "rtbassoc",
	} {
		if wire.Takes(action, name) {
			in[name] = prefix + nobody
		}
		if wire.Takes(action, name+"s") {
			in[name+"s"] = wire.Strings(prefix + nobody)
		}
	}
	for name, value := range map[string]any{
		"KeyName": "hive-test-nobody", "Device": "/dev/sdz", "DestinationCidrBlock": "192.0.2.0/24", "Name": "hive-test-nobody",
		"Size": 1, "DeviceIndex": 1,
		"IpPermissions": wire.List(wire.Object{
			"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "IpRanges": wire.List(wire.Object{"CidrIp": "192.0.2.0/24"}),
		}),
	} {
		if wire.Takes(action, name) {
			in[name] = value
		}
	}
	switch action {
	case "DeletePlacementGroup":
		in["GroupName"] = "hive-test-nobody"
		delete(in, "GroupId")
	case "ModifyInstanceCreditSpecification":
		in["InstanceCreditSpecifications"] = wire.List(wire.Object{"InstanceId": "i" + nobody, "CpuCredits": "standard"})
	case "DisassociateAddress":
		in["AssociationId"] = "eipassoc" + nobody
	}
	return in
}

// Version asks a hive for its version. Early ones do not tell it: then it is empty.
func (c *Client) Version(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for _, service := range []string{"spinifex", "hive"} {
		answer, err := c.Pass(ctx, service, url.Values{"Action": {"GetVersion"}})
		if err != nil {
			return ""
		}
		var said struct{ Version, Commit string }
		err = json.NewDecoder(io.LimitReader(answer.Body, answerLimit)).Decode(&said)
		_ = answer.Body.Close()
		if err == nil && answer.StatusCode == http.StatusOK && said.Version != "" {
			return strings.TrimSpace(said.Version + " " + said.Commit)
		}
	}
	return ""
}
