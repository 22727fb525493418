"""Mixture models, topic models and hidden Markov models with posteriors that keep only the few assignments that matter.

A mixture gives each row a probability for each of its K clusters, and LDA gives each word of a document one for each
of its K topics, though only a handful of them matter. lsparse keeps the L largest (``sparsity=8``, say, of 200), which
is the best choice under the variational objective, and every later step then costs L, not K.

The estimators are scikit-learn's in manner: :class:`GaussianMixture`, :class:`MultinomialMixture`,
:class:`BernoulliMixture`, :class:`PoissonMixture` and :class:`TopicModel`; :class:`HMM`, hidden Markov models, is
hmmlearn's. Their model files are those of the ``lsparse`` command.

Examples
--------
>>> import numpy as np
>>> from lsparse import GaussianMixture
>>> rng = np.random.default_rng(0)
>>> X = np.concatenate([rng.normal(-5, 1, (200, 2)), rng.normal(5, 1, (200, 2))])
>>> gm = GaussianMixture(n_components=2, random_state=0).fit(X)
>>> np.sort(gm.means_[:, 0]).round()
array([-5.,  5.])
"""

from importlib.metadata import version as _version

from . import exchange as exchange
from . import plot as plot
from ._corpus import Corpus, Vocabulary, build_corpus, read_corpus
from ._errors import LsparseError
from ._explore import ClusterPage, TopicPage, explore
from ._files import load, save
from ._mixtures import BernoulliMixture, GaussianMixture, MultinomialMixture, PoissonMixture
from ._page import Page, watch
from ._scores import coherence, completion_score
from ._sequences import HMM
from ._topics import TopicModel
from ._trace import Trace, read_trace

__version__ = _version("lsparse")

__all__ = [
    "BernoulliMixture",
    "ClusterPage",
    "Corpus",
    "GaussianMixture",
    "HMM",
    "LsparseError",
    "MultinomialMixture",
    "Page",
    "PoissonMixture",
    "TopicModel",
    "TopicPage",
    "Trace",
    "Vocabulary",
    "build_corpus",
    "coherence",
    "completion_score",
    "explore",
    "load",
    "read_corpus",
    "read_trace",
    "save",
    "watch",
]
