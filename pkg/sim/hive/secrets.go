package simhive

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// credentials are the admin's API key.
type credentials struct {
	AccessKeyID     string `json:"access_key_id"`
	SecretAccessKey string `json:"secret_access_key"`
	AccountID       string `json:"account_id"`
	Region          string `json:"region"`
}

const (
	adminAccount = "000000000001"
	upperAlnum   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	lowerAlnum   = "abcdefghijklmnopqrstuvwxyz234567"
)

// randomText returns n random characters of a 32-letter alphabet.
func randomText(n int, alphabet string) string {
	raw := make([]byte, n)
	rand.Read(raw) // never fails
	for i, b := range raw {
		raw[i] = alphabet[b%32]
	}
	return string(raw)
}

func (p *program) newCredentials(region string) credentials {
	return credentials{
		AccessKeyID: p.settings.secret("access_key", func() string { return "AKIA" + randomText(16, upperAlnum) }),
		SecretAccessKey: p.settings.secret("secret_key", func() string {
			secret := make([]byte, 30)
			rand.Read(secret) // never fails
			return base64.StdEncoding.EncodeToString(secret)
		}),
		AccountID: adminAccount,
		Region:    region,
	}
}

// authority is the cluster's certificate authority as PEM.
type authority struct{ Cert, Key []byte }

func certificate(name string, addresses []net.IP) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // crypto/rand never fails
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: []string{"Hive"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  addresses,
		DNSNames:     []string{"localhost", name},

		BasicConstraintsValid: true,
	}
}

// newAuthority makes a CA whose certificate also serves the formation server, as hive does since April 2026.
func newAuthority(addresses []net.IP) (authority, error) {
	template := certificate("hive-ca", addresses)
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("make the CA's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("make the CA's certificate: %w", err)
	}
	return encodePair(der, key)
}

func encodePair(der []byte, key *ecdsa.PrivateKey) (authority, error) {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return authority{}, fmt.Errorf("encode a private key: %w", err)
	}
	return authority{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// issue signs a server certificate for a node.
func (a authority) issue(node string, addresses []net.IP) (authority, error) {
	ca, err := tls.X509KeyPair(a.Cert, a.Key)
	if err != nil {
		return authority{}, fmt.Errorf("read the CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("make the key of %s: %w", node, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate(node, addresses), ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return authority{}, fmt.Errorf("sign the certificate of %s: %w", node, err)
	}
	return encodePair(der, key)
}

// ownAddresses are the addresses under which a node that listens on bind can be reached.
func ownAddresses(binds ...string) []net.IP {
	addresses := []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, bind := range binds {
		ip := net.ParseIP(bind)
		if ip == nil {
			continue
		}
		if !ip.IsUnspecified() {
			addresses = append(addresses, ip)
			continue
		}
		interfaces, _ := net.InterfaceAddrs() // without them, 127.0.0.1 remains
		for _, address := range interfaces {
			if network, ok := address.(*net.IPNet); ok {
				addresses = append(addresses, network.IP)
			}
		}
	}
	return addresses
}
