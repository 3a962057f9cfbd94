"""File names in the folders that commands write, each of them only here"""

from vit.layout.outputs import OPENVINO_GRAPH as OPENVINO_GRAPH
from vit.layout.outputs import ExplanationsLayout as ExplanationsLayout
from vit.layout.outputs import InspectionLayout as InspectionLayout
from vit.layout.outputs import MlflowLayout as MlflowLayout
from vit.layout.outputs import PartsLayout as PartsLayout
from vit.layout.outputs import cache_folder as cache_folder
from vit.layout.runs import CONFIG as CONFIG
from vit.layout.runs import EvaluationLayout as EvaluationLayout
from vit.layout.runs import RunLayout as RunLayout
from vit.layout.runs import is_of_pretraining as is_of_pretraining
from vit.layout.studies import CELLS as CELLS
from vit.layout.studies import FEATURES as FEATURES
from vit.layout.studies import CellsLayout as CellsLayout
from vit.layout.studies import CrossvalLayout as CrossvalLayout
from vit.layout.studies import FeaturesLayout as FeaturesLayout
from vit.layout.studies import StudyLayout as StudyLayout
