// Command franz runs clients of franz-go. Its first argument says which; the others are bootstrap, topic, and:
//
//	group GROUP COUNT     member of a group of KIP-848: prints partition:offset of COUNT records, then commits
//	share GROUP COUNT     member of a share group: rejects the value "bad", and prints partition:offset:deliveries of
//	                      COUNT others, which it accepts, except that it releases each offset 0 once
//	transact ID COUNT     commits COUNT transactions and aborts one before each; prints the producer epoch of each commit
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if len(os.Args) != 6 {
		fail(fmt.Errorf("usage: franz group|share|transact BOOTSTRAP TOPIC NAME COUNT"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	bootstrap, topic, name := os.Args[2], os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	fail(err)
	programs := map[string]func(context.Context, string, string, string, int){
		"group": group, "share": share, "transact": transact,
	}
	run, ok := programs[os.Args[1]]
	if !ok {
		fail(fmt.Errorf("no program %q", os.Args[1]))
	}
	run(ctx, bootstrap, topic, name, count)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	fail(err)
	return made
}

func poll(ctx context.Context, consumer *kgo.Client) []*kgo.Record {
	fetches := consumer.PollFetches(ctx)
	fail(fetches.Err())
	return fetches.Records()
}

func group(ctx context.Context, bootstrap, topic, name string, count int) {
	consumer := client(bootstrap, kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for count > 0 {
		for _, record := range poll(ctx, consumer) {
			fmt.Printf("%d:%d\n", record.Partition, record.Offset)
			count--
		}
	}
	fail(consumer.CommitUncommittedOffsets(ctx))
	consumer.Close()
}

func share(ctx context.Context, bootstrap, topic, name string, count int) {
	consumer := client(bootstrap, kgo.ShareGroup(name), kgo.ConsumeTopics(topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) { fail(results.Error()) }))
	released := map[int32]bool{}
	for count > 0 {
		for _, record := range poll(ctx, consumer) {
			switch {
			case string(record.Value) == "bad":
				consumer.MarkAcks(kgo.AckReject, record)
			case record.Offset == 0 && !released[record.Partition]:
				released[record.Partition] = true
				consumer.MarkAcks(kgo.AckRelease, record)
			default:
				consumer.MarkAcks(kgo.AckAccept, record)
				fmt.Printf("%d:%d:%d\n", record.Partition, record.Offset, record.DeliveryCount())
				count--
			}
		}
		fail(consumer.FlushAcks(ctx))
	}
	consumer.Close()
}

func transact(ctx context.Context, bootstrap, topic, name string, count int) {
	producer := client(bootstrap, kgo.TransactionalID(name), kgo.DefaultProduceTopic(topic))
	for number := range count {
		transaction(ctx, producer, fmt.Sprintf("aborted %d", number), kgo.TryAbort)
		transaction(ctx, producer, fmt.Sprintf("committed %d", number), kgo.TryCommit)
		_, epoch, err := producer.ProducerID(ctx)
		fail(err)
		fmt.Println(epoch)
	}
	producer.Close()
}

func transaction(ctx context.Context, producer *kgo.Client, value string, end kgo.TransactionEndTry) {
	fail(producer.BeginTransaction())
	fail(producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
	fail(producer.Flush(ctx))
	fail(producer.EndTransaction(ctx, end))
}
