package ec2_test

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // as AWS does
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/gateway/wire"
)

// Public keys, and their fingerprints as ssh-keygen and openssl compute them.
const (
	ed25519Line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILWluamFHs7Tn/srPk/qlWLsELlFHyeuR6MLII2n3qP3"
	ed25519Sum  = "GSlEQt2NiklcoLdEdnpVq9iGDVp3/6mPL2W3f2CEgLM="
	rsaLine     = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDt5ei2RvEwauoc6/xhRL9BSpbdfrURkv43/lwSIh8QE/dQRMQuvC4BQRTMTE53uo6qwQkNQzp5WJCe3freiFz8A158ghTp5B5t9ve4m3pdrnDl8zkJRmqWD2yIRAqf9+c5zmcE+BcF+e6KyP8Bw3ca5ckOLixJETbwFzxMBfhE6tiRvqG5EXXhGZokAYsxwR19Y8cCDfBJdBORYbQoj1wVFzYjKCWwKUUcpv6otXn++6KC5rCmSHcQw2Ex0vD/U7xB1TtUYL+vfNbTrj5hddIfy7TcK/HkKaJarVA8AkDD8mb76mYmJUj2b+VZ9K3qtdwvpAdPbvMbbHJnrPUyjjYH"
	rsaSum      = "09:94:f9:a2:22:6b:6e:14:6c:93:3f:59:47:aa:7e:2c"
	rsaDER      = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA7eXotkbxMGrqHOv8YUS/QUqW3X61EZL+N/5cEiIfEBP3UETELrwuAUEUzExOd7qOqsEJDUM6eViQnt363ohc/ANefIIU6eQebfb3uJt6Xa5w5fM5CUZqlg9siEQKn/fnOc5nBPgXBfnuisj/AcN3GuXJDi4sSRE28Bc8TAX4ROrYkb6huRF14RmaJAGLMcEdfWPHAg3wSXQTkWG0KI9cFRc2IyglsClFHKb+qLV5/vuiguawpkh3EMNhMdLw/1O8QdU7VGC/r3zW064+YXXSH8u03Cvx5CmiWq1QPAJAw/Jm++pmJiVI9m/lWfSt6rXcL6QHT27zG2xyZ6z1Mo42BwIDAQAB"
	ecdsaLine   = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBH86q5UGcjmjn34DU+rkpjRsKse8ANT3zbmqjTOdbtnllCWZ2r+Ctg5oRbs94MnKR9+3nk1DzPulSIXzeCU4HZo="
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// keyPair is the only key pair of a name.
func (a *account) keyPair(name string) wire.Object {
	a.t.Helper()
	found := a.must("DescribeKeyPairs", wire.Object{
		"KeyNames": wire.Strings(name), "IncludePublicKey": true,
	}).Objects("KeyPairs")
	if len(found) != 1 {
		a.t.Fatalf("%s: %v", name, found)
	}
	return found[0]
}

func TestImportKeyPair(t *testing.T) {
	a := newAccount(t, 0)
	ssh2 := "---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"a \\\nkey\"\n" + strings.Fields(rsaLine)[1] +
		"\n---- END SSH2 PUBLIC KEY ----\n"
	for name, test := range map[string]struct{ material, line, sum, sort string }{
		"ed25519":  {ed25519Line + " me@here\n", ed25519Line, ed25519Sum, "ed25519"},
		"rsa":      {rsaLine, rsaLine, rsaSum, "rsa"},
		"rsa-der":  {rsaDER, rsaLine, rsaSum, "rsa"},
		"rsa-pem":  {"-----BEGIN PUBLIC KEY-----\n" + rsaDER + "\n-----END PUBLIC KEY-----\n", rsaLine, rsaSum, "rsa"},
		"rsa-ssh2": {ssh2, rsaLine, rsaSum, "rsa"},
	} {
		made := a.must("ImportKeyPair", wire.Object{"KeyName": name, "PublicKeyMaterial": encoded(test.material)})
		if made.Text("KeyFingerprint") != test.sum ||
			!regexp.MustCompile(`^key-[0-9a-f]{17}$`).MatchString(made.Text("KeyPairId")) {
			t.Errorf("%s: %v", name, made)
		}
		kept := a.keyPair(name)
		if kept.Text("PublicKey") != test.line+" "+name || kept.Text("KeyType") != test.sort ||
			kept.Text("KeyFingerprint") != test.sum || kept.Text("CreateTime") != "2026-01-02T03:04:05.000Z" {
			t.Errorf("%s: %v", name, kept)
		}
	}
	for _, material := range []string{"", "key", ecdsaLine, "ssh-rsa AAAA"} {
		code := "InvalidKey.Format"
		if material == "" {
			code = "MissingParameter"
		}
		a.refused(code, "ImportKeyPair", wire.Object{"KeyName": "other", "PublicKeyMaterial": encoded(material)})
	}
	a.refused("InvalidKey.Format", "ImportKeyPair", wire.Object{"KeyName": "other", "PublicKeyMaterial": ed25519Line})
	a.refused("MissingParameter", "ImportKeyPair", wire.Object{"PublicKeyMaterial": encoded(ed25519Line)})
	a.refused("InvalidParameterValue", "ImportKeyPair", wire.Object{
		"KeyName": "schlüssel", "PublicKeyMaterial": encoded(ed25519Line),
	})
}

func TestCreateKeyPair(t *testing.T) {
	a := newAccount(t, 0)
	for sort, fingerprint := range map[string]string{
		"": `^([0-9a-f]{2}:){19}[0-9a-f]{2}$`, "rsa": `^([0-9a-f]{2}:){19}[0-9a-f]{2}$`, "ed25519": `^[A-Za-z0-9+/]{43}=$`,
	} {
		name := "key " + sort
		made := a.must("CreateKeyPair", wire.Object{"KeyName": name, "KeyType": sort})
		if !regexp.MustCompile(fingerprint).MatchString(made.Text("KeyFingerprint")) {
			t.Errorf("%s: fingerprint %s", name, made.Text("KeyFingerprint"))
		}
		private, err := ssh.ParseRawPrivateKey([]byte(made.Text("KeyMaterial")))
		if err != nil {
			t.Fatal(err)
		}
		var public any
		switch private := private.(type) {
		case *rsa.PrivateKey:
			public = private.Public()
			der, err := x509.MarshalPKCS8PrivateKey(private)
			sum := fmt.Sprintf("%x", sha1.Sum(der)) //nolint:gosec // as AWS does
			if err != nil || strings.ReplaceAll(made.Text("KeyFingerprint"), ":", "") != sum {
				t.Errorf("%s: fingerprint %s, want %s", name, made.Text("KeyFingerprint"), sum)
			}
		case *ed25519.PrivateKey:
			public = private.Public()
		}
		kept := a.keyPair(name)
		want, err := ssh.NewPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		got, _, _, _, err := ssh.ParseAuthorizedKey([]byte(kept.Text("PublicKey")))
		if err != nil || !reflect.DeepEqual(got.Marshal(), want.Marshal()) {
			t.Errorf("%s: the public key is not the private key's: %v", name, err)
		}
		if kept.Has("KeyMaterial") {
			t.Errorf("%s: the private key is kept", name)
		}
	}
	a.refused("InvalidParameterValue", "CreateKeyPair", wire.Object{"KeyName": "k", "KeyType": "dsa"})
	a.refused("InvalidParameterValue", "CreateKeyPair", wire.Object{"KeyName": "k", "KeyFormat": "ppk"})
}

func TestKeyPairs(t *testing.T) {
	a := newAccount(t, 0)
	one := a.must("ImportKeyPair", wire.Object{
		"KeyName": "one", "PublicKeyMaterial": encoded(ed25519Line), "TagSpecifications": wire.List(
			wire.Object{"ResourceType": "key-pair", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "x"})}),
	})
	a.must("ImportKeyPair", wire.Object{"KeyName": "two", "PublicKeyMaterial": encoded(rsaLine)})
	for name, value := range map[string]string{
		"key-name": "o*", "key-pair-id": one.Text("KeyPairId"), "fingerprint": ed25519Sum, "tag:Name": "x", "tag-key": "Name",
	} {
		found := a.must("DescribeKeyPairs", with(name, value)).Objects("KeyPairs")
		if len(found) != 1 || found[0].Text("KeyName") != "one" || found[0].Has("PublicKey") {
			t.Errorf("filter %s: %v", name, found)
		}
	}
	byID := wire.Object{"KeyPairIds": wire.Strings(one.Text("KeyPairId")), "KeyNames": wire.Strings("one", "two")}
	if found := a.must("DescribeKeyPairs", byID).Objects("KeyPairs"); len(found) != 2 {
		t.Errorf("by id and name: %v", found)
	}
	a.refused("InvalidKeyPair.Duplicate", "ImportKeyPair", wire.Object{
		"KeyName": "one", "PublicKeyMaterial": encoded(ed25519Line),
	})
	a.refused("InvalidKeyPair.Duplicate", "CreateKeyPair", wire.Object{"KeyName": "one", "KeyType": "ed25519"})
	a.refused("InvalidKeyPair.NotFound", "DescribeKeyPairs", wire.Object{"KeyNames": wire.Strings("three")})
	a.refused("InvalidKeyPair.NotFound", "DescribeKeyPairs", wire.Object{"KeyPairIds": wire.Strings("key-1")})

	a.must("CreateTags", wire.Object{
		"Resources": wire.Strings(one.Text("KeyPairId")), "Tags": wire.List(wire.Object{"Key": "Name", "Value": "y"}),
	})
	if kept := a.keyPair("one"); kept.Objects("Tags")[0].Text("Value") != "y" {
		t.Errorf("after tagging: %v", kept)
	}
	if gone := a.must("DeleteKeyPair", wire.Object{"KeyName": "one"}); gone.Text("KeyPairId") != one.Text("KeyPairId") {
		t.Errorf("deleted: %v", gone)
	}
	a.refused("InvalidKeyPair.NotFound", "DescribeKeyPairs", wire.Object{"KeyNames": wire.Strings("one")})
	a.must("DeleteKeyPair", wire.Object{"KeyName": "one"})
	a.must("DeleteKeyPair", wire.Object{"KeyPairId": "key-1"})
	a.refused("MissingParameter", "DeleteKeyPair", wire.Object{})
	a.must("DeleteKeyPair", wire.Object{"KeyPairId": a.keyPair("two").Text("KeyPairId")})
	if left := a.must("DescribeKeyPairs", wire.Object{}).Objects("KeyPairs"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestOneKeyPairOfAName(t *testing.T) {
	oneWins(t, twoGateways(t), "ImportKeyPair", wire.Object{"KeyName": "one", "PublicKeyMaterial": encoded(ed25519Line)})
}
