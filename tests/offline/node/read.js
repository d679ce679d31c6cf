// node read.js CLIENT HOST PORT TOPIC COUNT OFFSET: reads messages from an offset on with prozess or franz-kafka.
// Prints the payloads as a JSON array.

const [client, host, port, topic, count, offset] = process.argv.slice(2);
const total = Number(count);
const found = [];

function fail(error) {
  console.error(error);
  process.exit(1);
}

function take(payloads) {
  found.push(...payloads);
  if (found.length < total) return;
  console.log(JSON.stringify(found));
  process.exit(0);
}

function prozess() {
  const { Consumer } = require('prozess');
  const consumer = new Consumer({ host, port: Number(port), topic, partition: 0, offset: Number(offset) });
  const look = () => consumer.consume((error, messages) => {
    if (error) fail(error);
    take(messages.map((message) => message.payload.toString()));
    setTimeout(look, 10);
  });
  consumer.connect((error) => (error ? fail(error) : look()));
}

function franz() {
  const Kafka = require('franz-kafka');
  const kafka = new Kafka({ brokers: [{ id: 0, host, port: Number(port) }], minFetchDelay: 1, maxFetchDelay: 20 });
  kafka.connect(() => {
    const stream = kafka.topic(topic, { partitions: { consume: [`0-0:${offset}`], produce: [] } });
    stream.setEncoding('utf8');
    stream.on('error', fail);
    stream.on('data', (data) => take([data]));
    stream.resume();
  });
}

({ prozess, franz })[client]();
