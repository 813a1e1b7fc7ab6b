package simhive

import (
	"crypto/ed25519"
	"crypto/md5" //nolint:gosec // hive's fingerprints of RSA keys
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// keyActions are those about key pairs (handlers/ec2/key/service_impl.go).
//
//	CreateKeyPair    :63 ed25519 unless KeyType is rsa; InvalidKeyPair.Duplicate (409); tags are dropped
//	ImportKeyPair    :574 ed25519, rsa, ecdsa, else InvalidKey.Format; tags are dropped; the fingerprint is SHA256:… for
//	                 ed25519, else MD5 without colons
//	DescribeKeyPairs :455 a name or an id that there is not is no error; tagSet is always empty; pre honours no filter;
//	                    createTime is the time of the call (seen: it is predastore's LastModified)
//	DeleteKeyPair    :370 one that there is not is no error
func keyActions(Era) map[string]ec2Action {
	return map[string]ec2Action{
		"CreateKeyPair": createKeyPair, "ImportKeyPair": importKeyPair, "DescribeKeyPairs": describeKeyPairs,
		"DeleteKeyPair": deleteKeyPair,
	}
}

// keyNamed is the key pair of a name; nil if there is none.
func (c *ec2Call) keyNamed(name string) item {
	for _, key := range c.all(keyPairs) {
		if key.text("keyName") == name {
			return key
		}
	}
	return nil
}

// named refuses names that hive does not take (utils/utils.go:177).
func (c *ec2Call) named(name string) bool {
	for _, char := range name {
		if (char < 'A' || char > 'Z') && (char < 'a' || char > 'z') && (char < '0' || char > '9') &&
			!strings.ContainsRune("-_.", char) {
			c.refuse("InvalidKeyPair.Format")
			return false
		}
	}
	return true
}

// newKeyPair keeps a public key under the name that is asked for.
func (c *ec2Call) newKeyPair(public string) item {
	kind, blob, ok := publicKey(public)
	switch {
	case c.keyNamed(c.text("KeyName")) != nil:
		return c.refuse("InvalidKeyPair.Duplicate")
	case !ok:
		return c.refuse("InvalidKey.Format")
	}
	key := item{
		"keyPairId": newID("key"), "keyName": c.text("KeyName"), "createTime": moment(time.Now()), "keyType": "rsa",
		"tagSet": []any{},
	}
	if kind == "ssh-ed25519" {
		sum := sha256.Sum256(blob)
		key["keyType"], key["keyFingerprint"] = "ed25519", "SHA256:"+base64.RawStdEncoding.EncodeToString(sum[:])
	} else {
		sum := md5.Sum(blob) //nolint:gosec // as hive does
		key["keyFingerprint"] = hex.EncodeToString(sum[:])
	}
	c.put(keyPairs, key.text("keyPairId"), key)
	return key
}

// publicKey reads a line of OpenSSH's.
func publicKey(line string) (kind string, blob []byte, ok bool) {
	words := strings.Fields(line)
	if len(words) < 2 || !strings.HasPrefix(words[0], "ssh-ed25519") && !strings.HasPrefix(words[0], "ssh-rsa") &&
		!strings.HasPrefix(words[0], "ecdsa-sha2-") {
		return "", nil, false
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	return words[0], blob, err == nil
}

func createKeyPair(c *ec2Call) item {
	if c.missing("KeyName") || !c.named(c.text("KeyName")) {
		return nil
	}
	if c.keyNamed(c.text("KeyName")) != nil {
		return c.refuse("InvalidKeyPair.Duplicate")
	}
	public, private, ok := c.newKey()
	if !ok {
		return nil
	}
	key := c.newKeyPair(public)
	return item{
		"keyFingerprint": key["keyFingerprint"], "keyMaterial": private, "keyName": key["keyName"],
		"keyPairId": key["keyPairId"],
	}
}

// newKey makes the key that is asked for, as lines of OpenSSH's.
func (c *ec2Call) newKey() (public, private string, ok bool) {
	var signer any
	var err error
	switch kind := c.text("KeyType"); {
	case kind == "rsa":
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	case kind == "ed25519" || !c.has("KeyType"):
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	default:
		c.refuse("InvalidParameterValue")
		return "", "", false
	}
	c.failed(err)
	block, errPrivate := ssh.MarshalPrivateKey(signer, "")
	c.failed(errPrivate)
	key, errPublic := ssh.NewSignerFromKey(signer)
	c.failed(errPublic)
	if c.refusal != nil {
		return "", "", false
	}
	return string(ssh.MarshalAuthorizedKey(key.PublicKey())), string(pem.EncodeToMemory(block)), true
}

func importKeyPair(c *ec2Call) item {
	if c.missing("KeyName", "PublicKeyMaterial") || !c.named(c.text("KeyName")) {
		return nil
	}
	key := c.newKeyPair(decoded(c.text("PublicKeyMaterial")))
	if key == nil {
		return nil
	}
	return item{
		"keyFingerprint": key["keyFingerprint"], "keyName": key["keyName"], "keyPairId": key["keyPairId"],
		"tagSet": []any{},
	}
}

func describeKeyPairs(c *ec2Call) item {
	where := map[string]string{"key-pair-id": "keyPairId", "key-name": "keyName", "fingerprint": "keyFingerprint"}
	filters := c.known(where)
	if !c.spx() {
		filters = nil
	}
	var found []item
	for _, key := range c.all(keyPairs) {
		if c.among("KeyName", key.text("keyName")) && c.among("KeyPairId", key.text("keyPairId")) &&
			c.matches(key, where, filters) {
			key["createTime"] = moment(time.Now())
			found = append(found, key)
		}
	}
	return item{"keySet": listOf(found)}
}

// among tells whether a value is in a list of the call, if there is that list.
func (c *ec2Call) among(list, value string) bool {
	asked := c.list(list)
	for _, one := range asked {
		if one == value {
			return true
		}
	}
	return len(asked) == 0
}

func deleteKeyPair(c *ec2Call) item {
	id, name := c.text("KeyPairId"), c.text("KeyName")
	switch {
	case id == "" && name == "":
		return c.refuse("MissingParameter")
	case !c.named(strings.TrimPrefix(id, "key-")) || !c.named(name):
		return nil
	}
	key := c.keyNamed(name)
	if id != "" {
		key = c.get(keyPairs, id)
	}
	if key != nil {
		c.drop(keyPairs, key.text("keyPairId"))
	}
	return item{}
}
