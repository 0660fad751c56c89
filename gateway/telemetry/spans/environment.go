package spans

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/attribute"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// tlsFromEnvironment trusts and shows the certificates that OpenTelemetry's
// variables name. OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_COMPRESSION
// are left to the clients.
func tlsFromEnvironment() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, path := variable("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM", name, path)
		}
	}
	certName, cert := variable("CLIENT_CERTIFICATE")
	_, key := variable("CLIENT_KEY")
	if cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", certName, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// variable returns that of traces if it is set, else that of all signals.
func variable(what string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + what
	if value = os.Getenv(name); value == "" {
		name = "OTEL_EXPORTER_OTLP_" + what
		value = os.Getenv(name)
	}
	return name, value
}

// resource describes this gateway as whoever sent the spans.
func resource(ctx context.Context, o *Options) *resourcepb.Resource {
	var own []attribute.KeyValue
	for _, a := range [...]attribute.KeyValue{
		attribute.String("service.name", "failback"), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Instance), attribute.String("deployment.environment.name", o.Environment),
	} {
		if a.Value.AsString() != "" {
			own = append(own, a)
		}
	}
	// What of the environment cannot be read is left out, by WithFromEnv.
	r, _ := sdkresource.New(ctx, sdkresource.WithAttributes(own...), sdkresource.WithFromEnv())
	var attributes []*commonpb.KeyValue
	for _, a := range r.Attributes() {
		attributes = append(attributes, text(string(a.Key), a.Value.String()))
	}
	return &resourcepb.Resource{Attributes: attributes}
}
