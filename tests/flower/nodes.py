"""Nodes in this process: the same apps as anywhere, without a network."""

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity  # private: flwr is pinned

TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1


class Nodes(Grid):
    """A grid whose nodes are client apps called one after another; some may be away, or answer nonsense."""

    def __init__(self, app, configs, run_config=None):
        self.app = app
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config=run_config or {})
            for node, config in enumerate(configs, start=11)
        }
        self.away, self.twist, self.asked, self._replies = set(), {}, [], {}

    def set_run(self, run):
        """There is one run."""

    @property
    def run(self):
        """There is one run, and nothing to say of it."""

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        """A message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        """Nodes that are there."""
        return [node for node in self.contexts if node not in self.away]

    def push_messages(self, messages):
        """Runs the app of each node."""
        for number, message in enumerate(messages):
            node = message.metadata.dst_node_id
            self.asked.append((node, message))
            key = f"{len(self.asked)}-{number}"
            message.metadata.__dict__["_message_id"] = key
            try:
                reply = self.app(message, self.contexts[node])
            except Exception as error:  # noqa: BLE001 - as the runtime does
                reply = Message(Error(code=2, reason=str(error)), reply_to=message)
            self._replies[key] = self.twist.get(node, lambda reply: reply)(reply)
            yield key

    def pull_messages(self, message_ids):
        """What they answered."""
        return [self._replies.pop(key) for key in message_ids if self._replies.get(key) is not None]

    def send_and_receive(self, messages, *, timeout=None):
        """Both."""
        return self.pull_messages(list(self.push_messages(messages)))
