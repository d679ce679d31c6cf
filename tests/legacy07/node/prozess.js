// node prozess.js HOST PORT TOPIC COUNT: writes messages, one by one and together, and reads all of them back.
// Prints the payloads as a JSON array, then the earliest and the latest offset, then where the reader stands.

const { Producer, Consumer } = require('prozess');

const [host, port, topic, count] = process.argv.slice(2);
const total = Number(count);
const options = { host, port: Number(port), topic, partition: 0 };

function fail(error) {
  console.error(error);
  process.exit(1);
}

function produce(done) {
  const producer = new Producer(topic, options);
  producer.on('error', fail);
  producer.connect();
  producer.on('connect', () => {
    producer.send('first é', (error) => {
      if (error) fail(error);
      const rest = Array.from({ length: total - 1 }, (_, number) => `message ${number}`);
      producer.send(rest, (error) => (error ? fail(error) : done()));
    });
  });
}

function consume() {
  const consumer = new Consumer({ ...options, offset: 0, maxMessageSize: 1000 });
  const found = [];
  const look = () => consumer.consume((error, messages) => {
    if (error) fail(error);
    messages.forEach((message) => found.push(message.payload.toString()));
    if (found.length < total) setTimeout(look, messages.length ? 0 : 10);
    else end(consumer, found);
  });
  consumer.connect((error) => (error ? fail(error) : look()));
}

function end(consumer, found) {
  console.log(JSON.stringify(found));
  consumer.getEarliestOffset((error, earliest) => {
    if (error) fail(error);
    consumer.getLatestOffset((error, latest) => {
      if (error) fail(error);
      console.log(JSON.stringify([earliest.toString(), latest.toString(), consumer.offset.toString()]));
      process.exit(0);
    });
  });
}

produce(consume);
