package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/suite"
)

// Environment is what `env NAME` and env.sh tell of a cluster. It holds no secrets: the AWS keys are in a file that it
// names. Those files are there once hive is formed: until then AWS clients fail, and do not call somebody else with the
// user's own keys.
func Environment(r *cluster.Record, store Store) map[string]string {
	vars := suiteEnvironment(r, store)
	profile, name := suite.Profile{}, suite.Profiles()[0]
	if r.AWS != nil {
		profile, name = awsProfile(r, store), r.AWS.Profile
		maps.Copy(vars, map[string]string{
			"HIVE_CA_FILE": profile.CAFile,
			"AWS_REGION":   r.AWS.Region, "AWS_DEFAULT_REGION": r.AWS.Region,
			"AWS_ENDPOINT_URL": profile.Endpoint, "AWS_ENDPOINT_URL_S3": profile.S3Endpoint,
		})
	}
	maps.Copy(vars, map[string]string{
		"AWS_CA_BUNDLE": store.Path(r.Name, caFile),
		// Clients that know both take the older name first.
		"AWS_PROFILE": name, "AWS_DEFAULT_PROFILE": name,
		"AWS_CONFIG_FILE":             store.Path(r.Name, awsConfigFile),
		"AWS_SHARED_CREDENTIALS_FILE": store.Path(r.Name, awsCredentialsFile),
	})
	suite.Upstream(vars, len(r.Nodes))
	return vars
}

// suiteEnvironment is what suites get to know beside what the suites' own package makes for each.
func suiteEnvironment(r *cluster.Record, store Store) map[string]string {
	var addresses, names []string
	for _, node := range r.Nodes {
		names = append(names, node.Name)
		if node.Management.IsValid() {
			addresses = append(addresses, node.Management.String())
		}
	}
	return map[string]string{
		"HIVE_CLUSTER":         r.Name.String(),
		"HIVE_ENDPOINT":        r.Inventory().Endpoints["hive"],
		"HIVE_NODES":           strings.Join(addresses, ","),
		"HIVE_NODE_NAMES":      strings.Join(names, ","),
		"HIVE_SSH_USER":        r.Spec.SSHUser,
		"HIVE_SSH_KEY":         r.SSHKeyPath,
		"HIVE_SSH_CONFIG":      store.Path(r.Name, sshConfigFile),
		"HIVE_SSH_KNOWN_HOSTS": store.Path(r.Name, knownHostsFile),
		"HIVE_INVENTORY":       store.Path(r.Name, "inventory.json"),
	}
}

// awsProfile is the cluster as AWS clients see it, without its keys.
func awsProfile(r *cluster.Record, store Store) suite.Profile {
	leader := r.Nodes.Leader().Management
	return suite.Profile{
		Region: r.AWS.Region, Endpoint: suite.URL(leader, suite.GatewayPort),
		S3Endpoint: suite.URL(leader, suite.S3Port),
		CAFile:     store.Path(r.Name, caFile),
	}
}

// keepAccess writes down how the cluster's API is called: the AWS profile files and the CA, beside the cluster's SSH
// key.
func (r *Job) keepAccess(ctx context.Context, access hive.Access) error {
	next := *r.Record
	next.AWS = &cluster.AWS{Profile: access.Profile, Region: access.Region}
	profile := awsProfile(&next, r.Store)
	profile.AccessKey, profile.SecretKey = access.AccessKeyID, access.SecretAccessKey
	return errors.Join(
		r.Store.Write(r.Record.Name, caFile, access.CA),
		r.Store.Write(r.Record.Name, awsCredentialsFile, profile.Credentials()),
		r.Store.Write(r.Record.Name, NATSTokenFile, []byte(access.NATSToken+"\n")),
		r.change(ctx, func() { r.Record.AWS = next.AWS }),
		r.writeInventory(),
	)
}

// ForeignVariables are those that would make AWS clients use other keys or another profile than vars, which is what
// Environment returned, names. What a container is given comes after profiles, and fails where it is empty: it stays.
func ForeignVariables(vars map[string]string) []string {
	names := append(suite.ForeignVariables(), "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	names = slices.DeleteFunc(names, func(name string) bool {
		return vars[name] != "" || strings.HasPrefix(name, "AWS_CONTAINER_")
	})
	slices.Sort(names)
	return names
}
