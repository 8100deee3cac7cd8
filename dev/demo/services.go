package demo

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
)

// process is the shop's service for a record. It returns the order's number, a readable
// name of the record, and its failure, or nil.
func process(r *kgo.Record) (n int, name string, f *failure) {
	switch r.Topic {
	case orders.topic:
		n, f = processOrder(r)
		name = "order"
	case payments.topic:
		n, f = processPayment(r)
		name = "payment of order"
	default:
		n, f = processShipment(r)
		name = "shipment of order"
	}
	return n, fmt.Sprintf("%s %d", name, n), f
}

func processOrder(r *kgo.Record) (int, *failure) {
	var o order
	if err := json.Unmarshal(r.Value, &o); err != nil {
		return numberOf(r.Key), &failure{
			frame: "shop.orders.OrderCodec.decode(OrderCodec.java:22)",
			class: "com.fasterxml.jackson.core.io.JsonEOFException", permanent: true,
			message: "Unexpected end-of-input within/between Object entries: " + err.Error(),
		}
	}
	switch {
	case o.Cents < 0:
		return o.Order, &failure{
			frame: "shop.orders.OrderService.check(OrderService.java:71)",
			class: "shop.orders.InvalidOrderException", permanent: true,
			message: fmt.Sprintf("total must not be negative, but is %d", o.Cents),
		}
	case o.Currency != "EUR" && o.Currency != "USD" && o.Currency != "JPY":
		return o.Order, &failure{
			frame: "shop.orders.PriceList.rate(PriceList.java:48)",
			class: "shop.orders.UnknownCurrencyException", cause: "java.util.NoSuchElementException",
			message: fmt.Sprintf("unknown currency %q in order %d", o.Currency, o.Order),
		}
	}
	return o.Order, nil
}

func processPayment(r *kgo.Record) (int, *failure) {
	numbers, texts, err := protobufFields(r.Value)
	if err != nil {
		return numberOf(r.Key), &failure{
			frame: "shop.payments.PaymentCodec.decode(PaymentCodec.java:19)",
			class: "com.google.protobuf.InvalidProtocolBufferException", permanent: true, message: err.Error(),
		}
	}
	n := int(numbers[2])
	switch {
	case numbers[3] == 0:
		return n, &failure{
			frame: "shop.payments.PaymentService.check(PaymentService.java:33)",
			class: "shop.payments.InvalidAmountException", permanent: true,
			message: fmt.Sprintf("payment %d: amount must be positive", numbers[1]),
		}
	case texts[5] == "acquirer-3":
		return n, &failure{
			frame: "shop.payments.AcquirerClient.charge(AcquirerClient.java:57)",
			class: "java.net.http.HttpTimeoutException", cause: "java.net.SocketTimeoutException",
			message: fmt.Sprintf("POST https://acquirer-3.example/charges: request timed out after 5000 ms (payment %d)", numbers[1]),
		}
	}
	return n, nil
}

func protobufFields(b []byte) (numbers map[protowire.Number]uint64, texts map[protowire.Number]string, err error) {
	numbers, texts = map[protowire.Number]uint64{}, map[protowire.Number]string{}
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil, nil, protowire.ParseError(size)
		}
		b = b[size:]
		switch kind {
		case protowire.VarintType:
			numbers[field], size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			texts[field], size = protowire.ConsumeString(b)
		default:
			size = protowire.ConsumeFieldValue(field, kind, b)
		}
		if size < 0 {
			return nil, nil, protowire.ParseError(size)
		}
		b = b[size:]
	}
	return numbers, texts, nil
}

func processShipment(r *kgo.Record) (int, *failure) {
	if r.Value == nil {
		return numberOf(r.Key), &failure{
			frame: "shop.shipments.ShipmentService.ship(ShipmentService.java:40)",
			class: "java.lang.NullPointerException", message: "Cannot invoke \"Shipment.getCarrier()\" because \"shipment\" is null",
		}
	}
	schema, n, country, err := avroShipment(r.Value)
	if err != nil {
		return numberOf(r.Key), &failure{
			frame: "shop.shipments.ShipmentCodec.decode(ShipmentCodec.java:25)",
			class: "org.apache.avro.AvroRuntimeException", permanent: true, message: err.Error(),
		}
	}
	switch {
	case country == "AQ":
		return n, &failure{
			frame: "shop.shipments.CarrierTable.find(CarrierTable.java:64)",
			class: "shop.shipments.NoCarrierException", permanent: true, message: "no carrier delivers to AQ",
		}
	case schema != 12:
		return n, &failure{
			frame:   "shop.shipments.ShipmentCodec.decode(ShipmentCodec.java:25)",
			class:   "org.apache.kafka.common.errors.SerializationException",
			cause:   "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException",
			message: fmt.Sprintf("Error retrieving Avro schema for id %d; subject shop.shipments-value; error code: 40403", schema),
		}
	}
	return n, nil
}

var errAvro = errors.New("malformed Avro data")

func avroShipment(b []byte) (schema uint32, n int, country string, err error) {
	if len(b) < 5 || b[0] != 0 {
		return 0, 0, "", errAvro
	}
	schema, b = binary.BigEndian.Uint32(b[1:]), b[5:]
	var values [2]int64
	for i := range values {
		value, size := binary.Varint(b)
		if size <= 0 {
			return 0, 0, "", errAvro
		}
		values[i], b = value, b[size:]
	}
	var texts [2]string
	for i := range texts {
		length, size := binary.Varint(b)
		if size <= 0 || length < 0 || length > int64(len(b)-size) {
			return 0, 0, "", errAvro
		}
		texts[i], b = string(b[size:size+int(length)]), b[size+int(length):]
	}
	return schema, int(values[0]), texts[1], nil
}
