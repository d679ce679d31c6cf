import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** The admin client's commands: each opens a client, asks, prints rows. */
final class Admins {
    private Admins() {}

    interface Work {
        List<String> with(Admin admin) throws Exception;
    }

    private static List<String> ask(String bootstrap, Work work) throws Exception {
        try (Admin admin = Admin.create(Clients.settings(bootstrap))) {
            return work.with(admin);
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    /** bootstrap -> cluster id, controller, nodes */
    static List<String> cluster(String[] a) throws Exception {
        return ask(a[1], admin -> {
            var cluster = admin.describeCluster();
            List<String> nodes = new ArrayList<>();
            for (Node node : cluster.nodes().get()) {
                nodes.add(node.id() + "@" + node.host() + ":" + node.port());
            }
            return List.of(cluster.clusterId().get() + "\t" + cluster.controller().get().id() + "\t"
                + String.join(",", nodes));
        });
    }

    /** bootstrap topic partitions name=value,name=value... validate-only -> what the broker says of it */
    static List<String> createTopic(String[] a) throws Exception {
        return ask(a[1], admin -> {
            NewTopic topic = new NewTopic(a[2], Optional.of(Integer.valueOf(a[3])), Optional.empty());
            topic.configs(pairs(a[4]));
            var options = new CreateTopicsOptions().validateOnly(Boolean.parseBoolean(a[5]));
            var created = admin.createTopics(List.of(topic), options);
            created.all().get();
            return List.of(created.topicId(a[2]).get() + "\t" + created.numPartitions(a[2]).get() + "\t"
                + created.replicationFactor(a[2]).get());
        });
    }

    /** bootstrap topic */
    static List<String> deleteTopic(String[] a) throws Exception {
        return ask(a[1], admin -> {
            admin.deleteTopics(List.of(a[2])).all().get();
            return List.of();
        });
    }

    /** bootstrap */
    static List<String> topics(String[] a) throws Exception {
        return ask(a[1], admin -> List.copyOf(admin.listTopics().names().get()));
    }

    /** bootstrap topic -> id, internal; a row for each partition: number, leader, replicas, in-sync replicas */
    static List<String> topic(String[] a) throws Exception {
        return ask(a[1], admin -> {
            TopicDescription found = admin.describeTopics(List.of(a[2])).allTopicNames().get().get(a[2]);
            List<String> rows = new ArrayList<>(List.of(found.topicId() + "\t" + found.isInternal()));
            for (TopicPartitionInfo each : found.partitions()) {
                rows.add(each.partition() + "\t" + each.leader().id() + "\t" + each.replicas().size() + "\t"
                    + each.isr().size());
            }
            return rows;
        });
    }

    /** bootstrap topic count */
    static List<String> createPartitions(String[] a) throws Exception {
        return ask(a[1], admin -> {
            admin.createPartitions(Map.of(a[2], NewPartitions.increaseTo(Integer.parseInt(a[3])))).all().get();
            return List.of();
        });
    }

    /** bootstrap topic|broker name -> setting, value, source, type, read-only, number of synonyms, documented */
    static List<String> configs(String[] a) throws Exception {
        return ask(a[1], admin -> {
            ConfigResource resource = resource(a[2], a[3]);
            var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            Config found = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
            List<String> rows = new ArrayList<>();
            for (ConfigEntry each : found.entries()) {
                boolean documented = each.documentation() != null && !each.documentation().isEmpty();
                rows.add(String.join("\t", each.name(), each.value() == null ? "-" : Peer.flat(each.value()),
                    each.source().name(), each.type().name(), String.valueOf(each.isReadOnly()),
                    String.valueOf(each.synonyms().size()), String.valueOf(documented)));
            }
            return rows;
        });
    }

    /** bootstrap topic|broker name SET|DELETE|APPEND|SUBTRACT setting value */
    static List<String> alterConfig(String[] a) throws Exception {
        return ask(a[1], admin -> {
            var change = new AlterConfigOp(new ConfigEntry(a[5], a[6]), AlterConfigOp.OpType.valueOf(a[4]));
            Map<ConfigResource, Collection<AlterConfigOp>> all = Map.of(resource(a[2], a[3]), List.of(change));
            admin.incrementalAlterConfigs(all).all().get();
            return List.of();
        });
    }

    /** bootstrap -> group, state */
    static List<String> groups(String[] a) throws Exception {
        return ask(a[1], admin -> {
            List<String> rows = new ArrayList<>();
            for (var each : admin.listConsumerGroups().all().get()) {
                rows.add(each.groupId() + "\t" + each.state().map(Object::toString).orElse("-"));
            }
            return rows;
        });
    }

    /** bootstrap group -> state, assignor, coordinator; a row for each member: client id, host, partitions */
    static List<String> group(String[] a) throws Exception {
        return ask(a[1], admin -> {
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(a[2])).all().get().get(a[2]);
            List<String> rows = new ArrayList<>();
            rows.add(found.state() + "\t" + found.partitionAssignor() + "\t" + found.coordinator().id());
            found.members().forEach(member -> rows.add(member.clientId() + "\t" + member.host() + "\t"
                + member.assignment().topicPartitions().size()));
            return rows;
        });
    }

    /** bootstrap group */
    static List<String> deleteGroup(String[] a) throws Exception {
        return ask(a[1], admin -> {
            admin.deleteConsumerGroups(List.of(a[2])).all().get();
            return List.of();
        });
    }

    /** bootstrap group -> topic, partition, offset, metadata */
    static List<String> groupOffsets(String[] a) throws Exception {
        return ask(a[1], admin -> {
            List<String> rows = new ArrayList<>();
            var all = new HashMap<>(admin.listConsumerGroupOffsets(a[2]).partitionsToOffsetAndMetadata().get());
            all.forEach((key, value) -> rows.add(
                key.topic() + "\t" + key.partition() + "\t" + value.offset() + "\t" + value.metadata()));
            return rows;
        });
    }

    /** bootstrap group topic partition offset metadata */
    static List<String> alterGroupOffset(String[] a) throws Exception {
        return ask(a[1], admin -> {
            var offset = new OffsetAndMetadata(Long.parseLong(a[5]), a[6]);
            admin.alterConsumerGroupOffsets(a[2], Map.of(partition(a[3], a[4]), offset)).all().get();
            return List.of();
        });
    }

    /** bootstrap group topic partition */
    static List<String> deleteGroupOffset(String[] a) throws Exception {
        return ask(a[1], admin -> {
            admin.deleteConsumerGroupOffsets(a[2], Set.of(partition(a[3], a[4]))).all().get();
            return List.of();
        });
    }

    /** bootstrap topic partition offset -> low watermark */
    static List<String> deleteRecords(String[] a) throws Exception {
        return ask(a[1], admin -> {
            TopicPartition partition = partition(a[2], a[3]);
            RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(a[4]));
            var deleted = admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get();
            return List.of(String.valueOf(deleted.lowWatermark()));
        });
    }

    /** bootstrap topic partition earliest|latest|max-timestamp|TIMESTAMP -> offset, timestamp */
    static List<String> listOffset(String[] a) throws Exception {
        return ask(a[1], admin -> {
            OffsetSpec wanted = switch (a[4]) {
                case "earliest" -> OffsetSpec.earliest();
                case "latest" -> OffsetSpec.latest();
                case "max-timestamp" -> OffsetSpec.maxTimestamp();
                default -> OffsetSpec.forTimestamp(Long.parseLong(a[4]));
            };
            TopicPartition partition = partition(a[2], a[3]);
            ListOffsetsResultInfo found = admin.listOffsets(Map.of(partition, wanted)).all().get().get(partition);
            return List.of(found.offset() + "\t" + found.timestamp());
        });
    }

    /** bootstrap topic -> log directory, its error; a row for each partition of the topic in it: number, size, lag */
    static List<String> logDirs(String[] a) throws Exception {
        return ask(a[1], admin -> {
            List<String> rows = new ArrayList<>();
            List<Integer> brokers = new ArrayList<>();
            admin.describeCluster().nodes().get().forEach(node -> brokers.add(node.id()));
            admin.describeLogDirs(brokers).allDescriptions().get().values().forEach(directories ->
                directories.forEach((path, directory) -> {
                    rows.add(path + "\t" + directory.error());
                    new TreeMap<Integer, Long>(sizes(directory.replicaInfos(), a[2])).forEach(
                        (partition, size) -> rows.add(partition + "\t" + size));
                }));
            return rows;
        });
    }

    private static Map<Integer, Long> sizes(
            Map<TopicPartition, org.apache.kafka.clients.admin.ReplicaInfo> all, String topic) {
        Map<Integer, Long> sizes = new HashMap<>();
        all.forEach((key, value) -> {
            if (key.topic().equals(topic)) {
                sizes.put(key.partition(), value.size());
            }
        });
        return sizes;
    }

    private static ConfigResource resource(String type, String name) {
        return new ConfigResource(ConfigResource.Type.valueOf(type.toUpperCase()), name);
    }

    private static TopicPartition partition(String topic, String number) {
        return new TopicPartition(topic, Integer.parseInt(number));
    }

    private static Map<String, String> pairs(String text) {
        Map<String, String> pairs = new HashMap<>();
        for (String each : text.split(";")) {
            if (!each.isEmpty()) {
                pairs.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
            }
        }
        return pairs;
    }
}
