"""A strategy for Avalanche: an exact head on frozen features.

    from avalanche.benchmarks.classic import SplitMNIST
    strategy = ExactHead(features=torch.nn.Flatten(), basis="relu:2000,scale=none")
    for experience in SplitMNIST(5, seed=0).train_stream:
        strategy.train(experience)
        print(strategy.accuracy(benchmark.test_stream))

Needs torch and avalanche-lib. The features are any module in evaluation mode, such as a pretrained network without its last
layer; the head after every experience is that of joint training on all of them.
"""

import numpy as np
import torch
from avalanche.benchmarks.utils.data_loader import TaskBalancedDataLoader
from avalanche.training.templates import SupervisedTemplate
from pmfcl import ContinualClassifier


class FrozenFeatures(torch.nn.Module):
    """Features that never change, and the head as it is now."""

    def __init__(self, features):
        super().__init__()
        self.features = features.eval().requires_grad_(False)
        self.head = None
        # Avalanche's optimizers want something to hold.
        self.unused = torch.nn.Parameter(torch.zeros(1))

    @torch.no_grad()
    def embed(self, x):
        """Features of a batch as rows."""
        return self.features(x).flatten(1).double().cpu().numpy()

    def forward(self, x):
        """Scores of all classes up to the largest label seen; those never seen are far behind."""
        classes = self.head.classes_.astype(int)
        scores = np.full((len(x), classes.max() + 1), -1e9)
        scores[:, classes] = np.log(np.clip(self.head.predict_proba(self.embed(x)), 1e-300, None))
        return torch.from_numpy(scores).to(x.device) + 0 * self.unused


class ExactHead(SupervisedTemplate):
    """Learns every experience as a task of a `ContinualClassifier`; options are those of the classifier."""

    def __init__(self, *, features, batch=512, device="cpu", evaluator=None, plugins=None, **options):
        model = FrozenFeatures(features)
        super().__init__(
            model=model,
            optimizer=torch.optim.SGD([model.unused], lr=0.0),
            criterion=torch.nn.CrossEntropyLoss(),
            train_mb_size=batch,
            train_epochs=1,
            eval_mb_size=batch,
            device=device,
            plugins=plugins,
            **({} if evaluator is None else {"evaluator": evaluator}),
        )
        self.classifier = ContinualClassifier(**options)

    def training_epoch(self, **_):
        """One pass: the features of the experience become one summary."""
        rows, labels = [], []
        for batch in self.dataloader:
            rows.append(self.model.embed(batch[0].to(self.device)))
            labels.append(batch[1].numpy())
        name = f"experience-{self.experience.current_experience}"
        self.classifier.partial_fit(np.vstack(rows), np.concatenate(labels), task=name)
        self.model.head = self.classifier

    @torch.no_grad()
    def accuracy(self, stream):
        """Share of right answers on a stream of experiences."""
        right, count = 0, 0
        for experience in stream:
            for x, y, *_ in TaskBalancedDataLoader(experience.dataset.eval(), batch_size=512):
                right += (self.classifier.predict(self.model.embed(x.to(self.device))) == y.numpy()).sum()
                count += len(y)
        return right / count
