"""A model for Mammoth: an exact head on frozen features. Put this file into Mammoth as `models/pmfcl_head.py`, then

    python main.py --model pmfcl-head --dataset seq-mnist --n_epochs 1 --batch_size 64 --lr 0.1

Every row is learned once, in the first epoch; gradient steps are not taken. After each task the head is that of joint training on
all tasks so far. `--pmfcl_basis relu:2000,scale=none` maps the features through frozen random ones first.
"""

import numpy as np
import torch
from models.utils.continual_model import ContinualModel
from pmfcl import ContinualClassifier
from utils.args import ArgumentParser


class PmfclHead(ContinualModel):
    """Linear discriminants on the backbone's features, learned exactly."""

    NAME = "pmfcl_head"
    COMPATIBILITY = ("class-il", "domain-il", "task-il")

    @staticmethod
    def get_parser(parser) -> ArgumentParser:
        """Options of the head."""
        parser.add_argument("--pmfcl_loss", default="gaussian", choices=["gaussian", "squared"])
        parser.add_argument("--pmfcl_basis", default="linear")
        parser.add_argument(
            "--pmfcl_raw", default=1, type=int, help="1: flattened inputs are the features; 0: the backbone's"
        )
        return parser

    def __init__(self, backbone, loss, args, transform, dataset=None):
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        self.net.eval().requires_grad_(False)
        self.head = ContinualClassifier(loss=args.pmfcl_loss, basis=args.pmfcl_basis)
        self.waiting = []

    @torch.no_grad()
    def embed(self, x):
        """Features of a batch as rows."""
        features = x if self.args.pmfcl_raw else self.net(x, returnt="features")
        return features.flatten(1).double().cpu().numpy()

    def begin_task(self, dataset):
        """Rows of a new task."""
        self.waiting = []

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        """Keeps the features of the first epoch until the task ends."""
        if not epoch:
            self.waiting.append((self.embed(inputs), labels.cpu().numpy()))
        return 0.0

    def end_task(self, dataset):
        """One summary; the rows are discarded."""
        rows, labels = (np.concatenate(part) for part in zip(*self.waiting, strict=True))
        self.head.partial_fit(rows, labels, task=f"task-{self.current_task}")
        self.waiting = []

    def forward(self, x):
        """Log-probabilities; classes never seen are far behind."""
        scores = np.full((len(x), self.num_classes), -1e9)
        classes = self.head.classes_.astype(int)
        scores[:, classes] = np.log(np.clip(self.head.predict_proba(self.embed(x)), 1e-300, None))
        return torch.from_numpy(scores).to(self.device)
